package upstream

import (
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Bounds of what an upstream waits for.
const (
	tcpTimeout = 10 * time.Second
	// handshakeTimeout is for TLS, with touch: the API server itself gives up after
	// 32 s, and what is signed later is lost.
	handshakeTimeout = 30 * time.Second
	pingIdle         = 30 * time.Second
	pingTimeout      = 10 * time.Second
)

// Options describe an upstream.
type Options struct {
	Enrollment enrollment.Enrollment
	// Policy is the consent policy in force, as strict as the enrollment's or stricter.
	Policy consent.Policy
	// Chain is the client certificate's, leaf first.
	Chain []*x509.Certificate
	// Signer returns the key on the token. It is called once per full handshake,
	// with the context of the request that caused the dial, see [ClientOf]; see also
	// [Upstream.SignIn].
	Signer func(ctx context.Context) (crypto.Signer, error)
	Log    *slog.Logger
	// Handshake bounds a TLS handshake and its signature; 0 is 30 s.
	Handshake time.Duration
}

// Upstream is the way to one API server with one key: a pooled HTTP/2
// connection (or HTTP/1.1 ones, if the server speaks nothing else), tunnels for
// upgrades, and TLS tickets for both, in memory only.
type Upstream struct {
	o       Options
	prefix  string // path prefix of the server's URL, without a slash at its end
	host    string
	dialer  *dialer
	tls     *tls.Config
	tickets tickets
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc

	pool  *pool
	h2    *http2.Transport
	h1    *http.Transport
	http1 atomic.Bool // the server speaks HTTP/1.1 only

	mu    sync.Mutex
	conns map[*conn]struct{} // all that are open
	spare *conn              // the connection that showed http1

	alert    atomic.Pointer[net.OpError] // the last TLS alert, not yet reported
	rejected atomic.Bool                 // a 401 was seen since the last Check
	counters
}

type counters struct {
	requests, signatures, dials, resumed atomic.Uint64
	inFlight                             atomic.Int64
	lastUsed, lastAnswer                 atomic.Int64 // Unix nanoseconds
	lastError                            atomic.Value // string
}

// Status describes an upstream.
type Status struct {
	Enrollment  string `json:"enrollment"`
	Server      string `json:"server"`
	Protocol    string `json:"protocol"` // "h2" or "http/1.1"
	Connections int    `json:"connections"`
	Requests    uint64 `json:"requests"`
	InFlight    int64  `json:"inFlight"`
	// Dials counts handshakes; Resumed those that needed no Signatures.
	Dials      uint64 `json:"dials"`
	Resumed    uint64 `json:"resumed"`
	Signatures uint64 `json:"signatures"`
	// Rejected: the API server answered 401 since the last successful check.
	Rejected  bool      `json:"rejected,omitempty"`
	LastUsed  time.Time `json:"lastUsed,omitzero"`
	LastError string    `json:"lastError,omitempty"`
}

// New returns an upstream; it connects to nothing yet. Close it.
func New(o Options) (*Upstream, error) {
	server, err := url.Parse(o.Enrollment.Cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("enrollment %s: %w", o.Enrollment.Name, err)
	}
	d, err := newDialer(server, o.Enrollment.Cluster.ProxyURL, o.Enrollment.Cluster.Direct)
	if err != nil {
		return nil, fmt.Errorf("enrollment %s: %w", o.Enrollment.Name, err)
	}
	d.name = o.Enrollment.Name
	o.Handshake = cmp.Or(o.Handshake, handshakeTimeout)
	u := &Upstream{o: o, host: server.Host, prefix: strings.TrimSuffix(server.EscapedPath(), "/"), dialer: d, conns: map[*conn]struct{}{}}
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	if u.tls, err = u.tlsConfig(server); err != nil {
		return nil, fmt.Errorf("enrollment %s: %w", o.Enrollment.Name, err)
	}
	u.h2 = &http2.Transport{
		DisableCompression: true, // bodies pass as they are
		ReadIdleTimeout:    pingIdle,
		PingTimeout:        pingTimeout,
		MaxReadFrameSize:   256 << 10,
		MaxHeaderListSize:  1 << 20,
	}
	u.pool = &pool{dial: u.dialH2}
	u.h2.ConnPool = u.pool
	u.h1 = &http.Transport{
		DialTLSContext:      func(ctx context.Context, _, _ string) (net.Conn, error) { return u.dialH1(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return u, nil
}

func (u *Upstream) tlsConfig(server *url.URL) (*tls.Config, error) {
	c := u.o.Enrollment.Cluster
	cfg := &tls.Config{
		ServerName:           c.TLSServerName,
		MinVersion:           tls.VersionTLS12,
		ClientSessionCache:   &u.tickets,
		GetClientCertificate: u.certificate,
		InsecureSkipVerify:   c.InsecureSkipTLSVerify, // the user has asked for it by the server's name
	}
	if cfg.ServerName == "" {
		cfg.ServerName = server.Hostname()
	}
	if len(c.CAData) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(c.CAData) {
			return nil, errors.New("the certificate authority data holds no certificate")
		}
	}
	return cfg, nil
}

// certificate is called in a full handshake, when the server has asked for one.
func (u *Upstream) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	sign, ok := info.Context().Value(signInKey{}).(func(context.Context) (crypto.Signer, error))
	if !ok {
		sign = u.o.Signer
	}
	signer, err := sign(info.Context())
	if err != nil {
		return nil, err
	}
	cert := &tls.Certificate{Leaf: u.o.Chain[0], PrivateKey: countingSigner{signer, info.Context(), &u.signatures}}
	for _, c := range u.o.Chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}

// signInKey carries the signer of [Upstream.SignIn] to the handshake that it leads to:
// the transport has no other way.
type signInKey struct{}

// refusalKey carries in a handshake's context where to put why the key did not
// sign: crypto/tls keeps only the text.
type refusalKey struct{}

type countingSigner struct {
	crypto.Signer
	ctx context.Context
	n   *atomic.Uint64
}

func (s countingSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	sig, err := s.Signer.Sign(rand, digest, opts)
	if err == nil {
		s.n.Add(1)
	} else if to, ok := s.ctx.Value(refusalKey{}).(*error); ok {
		*to = err
	}
	return sig, err
}

// roundTrip sends a request by the protocol that the server speaks.
func (u *Upstream) roundTrip(r *http.Request) (*http.Response, error) {
	if !u.http1.Load() {
		resp, err := u.h2.RoundTrip(r)
		if !errors.Is(err, errHTTP1) {
			return resp, err
		}
	}
	return u.h1.RoundTrip(r)
}

// Policy is the consent policy in force.
func (u *Upstream) Policy() consent.Policy { return u.o.Policy }

// Reach makes a TCP connection and closes it: is anybody there? Errors wrap
// [ErrUnreachable].
func (u *Upstream) Reach(ctx context.Context) error {
	c, err := u.dialer.dial(ctx)
	u.note(err)
	if err != nil {
		return err
	}
	return c.Close()
}

// Check sends GET /version, over a new connection if none is open. Errors:
// [ErrUnreachable], [ErrUnauthorized], the signer's.
func (u *Upstream) Check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+u.host+u.prefix+"/version", nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kubehsm")
	req.Header.Set("Accept", "application/json")
	resp, err := u.roundTrip(req)
	if err != nil {
		err = u.roundTripError(ctx, err)
		u.note(err)
		return err
	}
	defer resp.Body.Close()
	// TLS tickets come before the first answer's end: with the body read, later
	// connections resume.
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return fmt.Errorf("%w %s: %w", ErrUnreachable, u.dialer.address, err)
	}
	u.lastAnswer.Store(time.Now().UnixNano())
	u.rejected.Store(resp.StatusCode == http.StatusUnauthorized)
	if resp.StatusCode == http.StatusUnauthorized {
		u.note(ErrUnauthorized)
		return fmt.Errorf("%s: %w", u.dialer.address, ErrUnauthorized)
	}
	return nil
}

// SignIn is [Upstream.Check], and a connection that it opens is signed for by the key
// that signer returns, in place of [Options.Signer].
func (u *Upstream) SignIn(ctx context.Context, signer func(context.Context) (crypto.Signer, error)) error {
	return u.Check(context.WithValue(ctx, signInKey{}, signer))
}

// roundTripError gives a transport's error its kind. TLS 1.3 servers refuse a
// certificate only after the handshake, when the first answer is awaited.
func (u *Upstream) roundTripError(ctx context.Context, err error) error {
	alert := cmp.Or(alertOf(err), u.alert.Swap(nil))
	switch {
	case u.ctx.Err() != nil:
		return context.Cause(u.ctx)
	case ctx.Err() != nil:
		return ctx.Err()
	case hsm.ErrorCode(err) != "" || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrNotSigned):
		return err
	case alert != nil:
		u.rejected.Store(true)
		return fmt.Errorf("%w: %s broke the connection off: %w", ErrUnauthorized, u.dialer.address, alert)
	}
	return fmt.Errorf("%w %s: %w", ErrUnreachable, u.dialer.address, err)
}

// alertOf returns err as what the peer said when it broke TLS off, else nil;
// crypto/tls marks that so.
func alertOf(err error) *net.OpError {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op
	}
	return nil
}

// Live tells whether a connection is open that takes requests.
func (u *Upstream) Live() bool {
	if u.http1.Load() {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.conns) > 0
	}
	return u.pool.live() > 0
}

// Rejected tells whether a 401 was seen since the last Check.
func (u *Upstream) Rejected() bool { return u.rejected.Load() }

// LastAnswer is when the API server last answered.
func (u *Upstream) LastAnswer() time.Time { return time.Unix(0, u.lastAnswer.Load()) }

// LastUsed is when a request last began or ended; a stream in flight is use too.
func (u *Upstream) LastUsed() time.Time {
	if u.inFlight.Load() > 0 {
		return time.Now()
	}
	return time.Unix(0, u.lastUsed.Load())
}

// Reset lets the open connections finish what they carry and makes new requests dial.
func (u *Upstream) Reset() {
	u.pool.retire(u.ctx)
	u.h1.CloseIdleConnections()
}

// Forget drops the TLS tickets: the next handshake needs a signature.
func (u *Upstream) Forget() { u.tickets.forget() }

// Close is [Upstream.CloseFor] without a reason.
func (u *Upstream) Close() { u.close(ErrClosed) }

// CloseFor cuts everything: connections, tunnels, dials in flight. The TLS tickets
// go with it. It may be called more than once. why is a clause: what is cut off
// is told that.
func (u *Upstream) CloseFor(why string) { u.close(fmt.Errorf("%w: %s", ErrClosed, why)) }

func (u *Upstream) close(why error) {
	u.cancel(why)
	u.mu.Lock()
	open := make([]*conn, 0, len(u.conns))
	for c := range u.conns {
		open = append(open, c)
	}
	u.spare = nil
	u.mu.Unlock()
	for _, c := range open {
		_ = c.NetConn().Close() // at once, without TLS's goodbye: the peer may be gone already
	}
	u.h1.CloseIdleConnections()
	u.Forget()
}

// Status describes the upstream.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	open := len(u.conns)
	u.mu.Unlock()
	st := Status{Enrollment: u.o.Enrollment.Name, Server: u.o.Enrollment.Cluster.Server, Protocol: "h2",
		Connections: open, Requests: u.requests.Load(), InFlight: u.inFlight.Load(), Dials: u.dials.Load(),
		Resumed: u.resumed.Load(), Signatures: u.signatures.Load(), Rejected: u.rejected.Load()}
	if u.http1.Load() {
		st.Protocol = "http/1.1"
	}
	if ns := u.lastUsed.Load(); ns != 0 {
		st.LastUsed = time.Unix(0, ns)
	}
	st.LastError, _ = u.lastError.Load().(string)
	return st
}

func (u *Upstream) note(err error) {
	if err != nil {
		u.lastError.Store(err.Error())
		u.o.Log.Warn("upstream", "enrollment", u.o.Enrollment.Name, "error", err)
	}
}
