package provider

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// upgrade gives the certificate to a round tripper that dials itself.
func (p *provider) upgrade(rt http.RoundTripper, c *tls.Config) http.RoundTripper {
	if c == nil {
		return failing{fmt.Errorf("auth provider %s: %T has no TLS configuration to put a certificate into: give the "+
			"cluster a certificate-authority or a tls-server-name", Name, rt)}
	}
	if c.GetClientCertificate != nil || len(c.Certificates) > 0 {
		return rt
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &upgrading{provider: p, rt: rt}
	sign := p.leaf.forHandshake(0)
	c.ClientSessionCache = sessionsUnless{p.sessionsFor(c), &u.without}
	c.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if u.without.Load() {
			return &tls.Certificate{}, nil
		}
		return sign(info)
	}
	return u
}

// upgrading is a SPDY or WebSocket round tripper, for one connection.
type upgrading struct {
	provider *provider
	rt       http.RoundTripper
	without  atomic.Bool
}

var _ utilnet.RoundTripperWrapper = (*upgrading)(nil)

func (u *upgrading) RoundTrip(req *http.Request) (*http.Response, error) {
	u.without.Store(req.Header.Get("Authorization") != "")
	if req.URL.Scheme == "https" && !u.without.Load() {
		if _, err := u.provider.leaf.get(req.Context()); err != nil {
			return nil, errors.Join(err, closeBody(req))
		}
	}
	return u.rt.RoundTrip(req)
}

func (u *upgrading) WrappedRoundTripper() http.RoundTripper { return u.rt }
