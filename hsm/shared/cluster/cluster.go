// Package cluster has the one description of an API server: what a kubeconfig, a
// discovery document and a client's request say of it, and what an enrollment records.
// Everybody may import it. It reads and checks none of them: who reads one of these
// forms says what it may contain.
package cluster

// Cluster is how an API server is reached, and how it is known. Its JSON is the form
// that enrollments and the records of their progress are kept in; the other forms have
// names of their own, which the packages that read or write them spell.
type Cluster struct {
	// Server is its https URL, with a path prefix if it has one.
	Server string `json:"server"`
	// CAData is the PEM bundle that its certificate is checked with; empty means the
	// system's roots.
	CAData []byte `json:"caData,omitempty"`
	// InsecureSkipTLSVerify says that the certificate is not checked at all. It
	// excludes CAData.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
	// TLSServerName is checked instead of the server's host name, if set.
	TLSServerName string `json:"tlsServerName,omitempty"`
	// ProxyURL is the proxy to reach it by (http, https, socks5); "" means what the
	// environment says, unless Direct.
	ProxyURL string `json:"proxyURL,omitempty"`
	// Direct says that no proxy is used, whatever the environment says. Only an
	// enrollment can say it.
	Direct bool `json:"direct,omitempty"`
	// DisableCompression says that clients ask for no compressed answers. It is for
	// kubeconfig entries: the bridge adds no compression of its own.
	DisableCompression bool `json:"disableCompression,omitempty"`
}
