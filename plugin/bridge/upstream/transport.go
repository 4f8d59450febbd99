package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Bounds of an idle HTTP/2 connection, after which a ping tells whether it is alive.
const (
	pingIdle    = 30 * time.Second
	pingTimeout = 10 * time.Second
)

// transport sends requests by the protocol that the API server speaks: over a pooled
// HTTP/2 connection, or HTTP/1.1 ones.
type transport struct {
	conns *connections
	pool  *pool
	h2    *http2.Transport
	h1    *http.Transport
	lanes *lanes
	http1 atomic.Bool // the server speaks HTTP/1.1 only

	mu    sync.Mutex
	spare *conn // a connection for HTTP/1.1 that has cost a signature, not yet used
}

func newTransport(conns *connections) *transport {
	t := &transport{conns: conns}
	t.h2 = &http2.Transport{
		DisableCompression: true, // bodies pass as they are
		ReadIdleTimeout:    pingIdle,
		PingTimeout:        pingTimeout,
		MaxReadFrameSize:   256 << 10,
		MaxHeaderListSize:  1 << 20,
	}
	t.pool = &pool{dial: t.dialH2}
	t.h2.ConnPool = signedPool{t.pool, conns.o.Signer}
	t.lanes = &lanes{conns: conns, alive: t.alive}
	t.h2.CountError = func(kind string) {
		if kind == "conn_close_lost_ping" { // The library tells in no other way why it closes a connection.
			t.lanes.lose()
		}
	}
	t.h1 = &http.Transport{
		DialTLSContext:      func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dialH1(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return t
}

// RoundTrip implements [http.RoundTripper]. A connection that it opens is signed for by
// [Options.Signer].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if short(r) && !t.http1.Load() {
		if resp, ok, err := t.lanes.roundTrip(r); ok {
			return resp, err
		}
	}
	return t.pooled(r)
}

// pooled is RoundTrip without lanes.
func (t *transport) pooled(r *http.Request) (*http.Response, error) {
	if !t.http1.Load() {
		resp, err := t.h2.RoundTrip(r)
		if !errors.Is(err, errHTTP1) {
			return resp, err
		}
	}
	return t.h1.RoundTrip(r)
}

// signIn is RoundTrip, and sign signs for a connection that it opens.
func (t *transport) signIn(r *http.Request, sign Signing) (*http.Response, error) {
	if !t.http1.Load() {
		// The connections are h2's: this one only says who signs for another.
		by := &http2.Transport{DisableCompression: true, ConnPool: signedPool{t.pool, sign}}
		resp, err := by.RoundTrip(r)
		if !errors.Is(err, errHTTP1) {
			return resp, err
		}
	}
	return t.h1.RoundTrip(r.WithContext(&signInContext{r.Context(), sign}))
}

// signInContext is the context of a sign-in, with who signs: the HTTP/1.1 transport says
// in no other way for which request it dials.
type signInContext struct {
	context.Context
	sign Signing
}

// signInKey carries the sign-in itself.
type signInKey struct{}

func (c *signInContext) Value(key any) any {
	if _, ok := key.(signInKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func (t *transport) dialH2(ctx context.Context, sign Signing) (*http2.ClientConn, error) {
	c, err := t.conns.dial(ctx, sign, true, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	if c.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		t.http1.Store(true)
		t.setSpare(c)
		return nil, errHTTP1
	}
	cc, err := t.h2.NewClientConn(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return cc, nil
}

func (t *transport) dialH1(ctx context.Context) (net.Conn, error) {
	t.mu.Lock()
	c := t.spare
	t.spare = nil
	t.mu.Unlock()
	if c != nil {
		return c, nil
	}
	if by, ok := ctx.Value(signInKey{}).(*signInContext); ok { // a dial for a sign-in ends with it
		return t.conns.dial(by, by.sign, true, "http/1.1")
	}
	return t.conns.dial(ctx, t.conns.o.Signer, true, "http/1.1")
}

// setSpare keeps c, which has cost a signature, for the first HTTP/1.1 request.
func (t *transport) setSpare(c *conn) {
	t.mu.Lock()
	old := t.spare
	t.spare = c
	t.mu.Unlock()
	if old != nil {
		_ = old.Close() // the old connection was never used
	}
}

// live tells whether a connection is open that takes requests.
func (t *transport) live() bool {
	if t.http1.Load() {
		_, shared := t.conns.count()
		return shared > 0
	}
	return t.pool.live() > 0
}

// alive tells whether the API server answers: a ping or, if no HTTP/2 connection is open, a dial.
// Neither costs a signature.
func (t *transport) alive() bool {
	ctx, cancel := context.WithTimeout(t.conns.ctx, pingTimeout)
	defer cancel()
	if t.pool.ping(ctx) {
		return true
	}
	c, err := t.conns.dialer.dial(ctx) // fails at once if a ping has taken all the time
	return err == nil && c.Close() == nil
}

// retire lets the open connections finish what they carry and has new requests dial.
func (t *transport) retire() {
	t.conns.retire()
	t.pool.retire(t.conns.ctx)
	t.lanes.retire()
	t.h1.CloseIdleConnections()
}

// close forgets what it keeps, once all connections have been cut.
func (t *transport) close() {
	t.mu.Lock()
	t.spare = nil
	t.mu.Unlock()
	t.h1.CloseIdleConnections()
}

// protocol is what the server speaks, as TLS names it.
func (t *transport) protocol() string {
	if t.http1.Load() {
		return "http/1.1"
	}
	return http2.NextProtoTLS
}
