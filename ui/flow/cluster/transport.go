package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
)

// lookTimeout bounds the handshake of a look at a cluster without a credential.
const lookTimeout = 10 * time.Second

// AcceptedBy asks a cluster which client certificates it accepts, without a
// credential; nil if it does not tell.
func AcceptedBy(ctx context.Context, c cluster.Cluster) *csr.Accepted {
	a, err := csr.AskAccepted(ctx, Transport(c, lookTimeout), c.Server)
	if err != nil {
		return nil // the steps that need the cluster say why
	}
	return a
}

// Anonymous says how to reach a cluster, without any credential.
func Anonymous(c cluster.Cluster) *rest.Config {
	config := &rest.Config{Host: c.Server,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CAData, ServerName: c.TLSServerName}}
	if u, err := url.Parse(c.ProxyURL); c.ProxyURL != "" && err == nil { // checked when it was found
		config.Proxy = http.ProxyURL(u)
	}
	return config
}

// Transport reaches the cluster's API server as an enrollment says, with no
// credential.
func Transport(c cluster.Cluster, handshake time.Duration) *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: handshake,
		TLSClientConfig: &tls.Config{ServerName: c.TLSServerName, MinVersion: tls.VersionTLS12,
			InsecureSkipVerify: c.InsecureSkipTLSVerify}} // the host was enrolled unverified, by its name
	if len(c.CAData) > 0 {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(c.CAData)
	}
	if c.Direct {
		t.Proxy = nil
	} else if c.ProxyURL != "" {
		if u, err := url.Parse(c.ProxyURL); err == nil { // the store has checked it
			t.Proxy = http.ProxyURL(u)
		}
	}
	return t
}
