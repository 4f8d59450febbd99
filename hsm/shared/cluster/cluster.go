// Package cluster holds what every description of an API server says. Everybody may
// import it.
package cluster

// Cluster is how an API server is reached, and how it is known.
type Cluster struct {
	// Server is its https URL, with a path prefix if it has one.
	Server string
	// CAData is the PEM bundle that its certificate is checked with; empty means the
	// system's roots.
	CAData []byte
	// TLSServerName is checked instead of the server's host name, if set.
	TLSServerName string
	// InsecureSkipTLSVerify says that the certificate is not checked at all. It
	// excludes CAData.
	InsecureSkipTLSVerify bool
	// ProxyURL is the proxy to reach it by; "" means what the environment says.
	ProxyURL string
	// DisableCompression says that clients ask for no compressed answers.
	DisableCompression bool
}
