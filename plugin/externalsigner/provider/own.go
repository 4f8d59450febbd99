package provider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// own is our copy of a shared transport, which keeps it alive by the scheme registered there.
type own struct {
	leaf      *leaf
	sessions  *sessions
	transport *http.Transport

	used atomic.Pointer[x509.Certificate]
	warm atomic.Bool   // a connection has been made, or could not be
	gate chan struct{} // holds a token while the first connection is made
}

func (p *provider) ownOf(base *http.Transport) (*own, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := weak.Make(base)
	if o := p.own[id].Value(); o != nil {
		return o, nil
	}
	o := p.copyOf(base)
	if err := register(base, p.scheme, o); err != nil {
		return nil, err
	}
	p.own[id] = weak.Make(o)
	runtime.AddCleanup(base, p.drop, id)
	return o, nil
}

func (p *provider) drop(id weak.Pointer[http.Transport]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.own, id)
}

func register(base *http.Transport, scheme string, o *own) (err error) {
	defer func() {
		if r := recover(); r != nil { // the method panics if the scheme is registered
			err = fmt.Errorf("auth provider %s is in use twice on one transport: %v", Name, r)
		}
	}()
	base.RegisterProtocol(scheme, o)
	return nil
}

func (p *provider) copyOf(base *http.Transport) *own {
	t := base.Clone()
	proxy, protocols := t.Proxy, t.TLSNextProto
	_, http2 := protocols["h2"]
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	o := &own{leaf: p.leaf, transport: t, sessions: p.sessionsFor(t.TLSClientConfig), gate: make(chan struct{}, 1)}
	t.TLSClientConfig.ClientSessionCache = o.sessions
	t.TLSClientConfig.GetClientCertificate = p.leaf.forHandshake(t.TLSHandshakeTimeout)
	if http2 || protocols == nil {
		// The functions of the shared transport would put our connections into
		// its HTTP/2 pool, for everybody: ours makes its own.
		t.TLSNextProto = nil
		utilnet.SetTransportDefaults(t).Proxy = proxy
	}
	return o
}

// RoundTrip implements [http.RoundTripper] for the scheme registered with the
// shared transport.
func (o *own) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme = "https"
	// The certificate is asked for outside of the handshake, which is timed.
	chain, err := o.leaf.get(req.Context())
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	cert := chain[0]
	if last := o.used.Swap(cert); last != nil && !last.Equal(cert) {
		o.sessions.forget()
		o.transport.CloseIdleConnections()
	}
	resp, err := o.send(req)
	if err != nil && strings.Contains(err.Error(), "TLS handshake timeout") && o.leaf.signer.signing.Load() > 0 {
		return nil, fmt.Errorf("%w: %w", late(o.transport.TLSHandshakeTimeout), err) // over a slow network
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		o.leaf.forget() // a renewed certificate may be on the token
	}
	return resp, err
}

// send lets the first request open the connection before others start: each new connection costs a
// signature.
func (o *own) send(req *http.Request) (*http.Response, error) {
	if o.warm.Load() {
		return o.transport.RoundTrip(req)
	}
	select {
	case o.gate <- struct{}{}:
	case <-req.Context().Done():
		return nil, errors.Join(req.Context().Err(), closeBody(req))
	}
	open := sync.OnceFunc(func() {
		o.warm.Store(true)
		<-o.gate
	})
	defer open()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { open() }}
	return o.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
}
