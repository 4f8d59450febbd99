package cluster

import (
	"fmt"
	"net/url"
)

// UnverifiedError says that a context's cluster is not verified
// (insecure-skip-tls-verify), which its Host has to be named for to be enrolled
// all the same.
type UnverifiedError struct {
	// Context is the kubeconfig context, Host the API server's host, with its port
	// if the address has one.
	Context, Host string
}

func (e *UnverifiedError) Error() string {
	return fmt.Sprintf("context %q does not verify its API server (insecure-skip-tls-verify)", e.Context)
}

// Consequence says in plain words what it means.
func (e *UnverifiedError) Consequence() string {
	return "whoever is in between reads what is sent to " + e.Host + ", secrets too, and answers in its place"
}

// Hint implements the hints of package hsm.
func (e *UnverifiedError) Hint() string {
	return "put the cluster's CA into certificate-authority-data. Else " + e.Consequence() +
		"; --accept-risk unverified:" + e.Host + " enrolls it anyway"
}

// Accepts tells whether the cluster may be enrolled: it is verified, or host names
// it as one that need not be. It is an [*UnverifiedError] if not.
func (e Endpoint) Accepts(host string) error {
	if !e.Cluster.InsecureSkipTLSVerify {
		return nil
	}
	u, err := url.Parse(e.Cluster.Server)
	if err != nil {
		return err
	}
	if u.Host == "" || host != u.Host {
		return &UnverifiedError{Context: e.Context, Host: u.Host}
	}
	return nil
}
