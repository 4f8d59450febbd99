package provider

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"weak"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

type provider struct {
	leaf *leaf
	// scheme directs requests to our transports. It is the same in every run: discovery caches go
	// by the URL.
	scheme string

	mu       sync.Mutex
	own      map[weak.Pointer[http.Transport]]weak.Pointer[own]
	sessions []*sessions
}

func newProvider(s *signer, number int) *provider {
	return &provider{
		leaf:   newLeaf(s),
		scheme: fmt.Sprintf("https+external-signer-%d", number),
		own:    map[weak.Pointer[http.Transport]]weak.Pointer[own]{},
	}
}

// Login implements [rest.AuthProvider]. There is nothing to set up.
func (p *provider) Login() error { return nil }

// WrapTransport implements [rest.AuthProvider].
func (p *provider) WrapTransport(rt http.RoundTripper) http.RoundTripper {
	switch base := bottom(rt).(type) {
	case *http.Transport:
		if c := base.TLSClientConfig; c != nil && (c.GetClientCertificate != nil || len(c.Certificates) > 0) {
			return rt // --client-certificate goes first, as with exec plugins
		}
		return &steered{provider: p, rt: rt}
	case tlsHolder:
		return p.upgrade(rt, base.TLSClientConfig())
	}
	return failing{fmt.Errorf("auth provider %s: the TLS configuration below a %T cannot be reached: let it have a "+
		"method WrappedRoundTripper() http.RoundTripper", Name, rt)}
}

// steered has our copy of the transport at the bottom of rt send its requests.
type steered struct {
	provider *provider
	rt       http.RoundTripper // also keeps client-go's shared transport in use
}

var _ utilnet.RoundTripperWrapper = (*steered)(nil)

// RoundTrip implements [http.RoundTripper]. Requests with a token of their own
// go without the certificate, as with exec plugins.
func (s *steered) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" || req.Header.Get("Authorization") != "" {
		return s.rt.RoundTrip(req)
	}
	resp, err := s.send(req)
	if err == nil || !strings.Contains(err.Error(), "unsupported protocol scheme") || req.Body != nil &&
		req.GetBody == nil {
		return resp, err
	}
	// client-go put another transport to the bottom meanwhile.
	if req.Body != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return s.send(req)
}

func (s *steered) send(req *http.Request) (*http.Response, error) {
	if _, err := s.transport(); err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	req = req.Clone(req.Context())
	req.URL.Scheme = s.provider.scheme
	return s.rt.RoundTrip(req)
}

// transport is our copy of the current transport: client-go replaces it when the file of the
// cluster's CA changes.
func (s *steered) transport() (*own, error) {
	base, ok := bottom(s.rt).(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("auth provider %s: no transport below a %T any more", Name, s.rt)
	}
	return s.provider.ownOf(base)
}

// WrappedRoundTripper returns the transport that requests are sent by.
func (s *steered) WrappedRoundTripper() http.RoundTripper {
	if o, err := s.transport(); err == nil {
		return o.transport
	}
	return s.rt
}

// failing is the transport of clients that cannot get a certificate.
type failing struct{ err error }

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, errors.Join(f.err, closeBody(req))
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}
