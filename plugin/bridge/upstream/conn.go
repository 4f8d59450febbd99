package upstream

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Bounds of what a dial waits for.
const (
	tcpTimeout = 10 * time.Second
	// handshakeTimeout is for TLS, with touch: the API server itself gives up after
	// 32 s, and what is signed later is lost.
	handshakeTimeout = 30 * time.Second
)

// connections makes TLS connections to one API server, and keeps count of the open ones.
type connections struct {
	o       Options
	dialer  *dialer
	tls     *tls.Config
	tickets tickets
	record  *record
	ctx     context.Context // ends with close
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	open    map[*conn]bool // true: the connection takes requests of any client; false: a tunnel
	dialing int            // dials in flight

	alert atomic.Pointer[net.OpError] // the last TLS alert, not yet reported
}

func newConnections(o Options, server *url.URL, rec *record) (*connections, error) {
	c := &connections{o: o, record: rec, open: map[*conn]bool{}}
	var err error
	if c.dialer, err = newDialer(server, o.Enrollment.Cluster.ProxyURL, o.Enrollment.Cluster.Direct); err != nil {
		return nil, err
	}
	c.dialer.name = o.Enrollment.Name
	if c.tls, err = tlsConfig(o.Enrollment.Cluster, server); err != nil {
		return nil, err
	}
	c.tls.ClientSessionCache = &c.tickets
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c, nil
}

func tlsConfig(c cluster.Cluster, server *url.URL) (*tls.Config, error) {
	cfg := &tls.Config{
		ServerName:         c.TLSServerName,
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: c.InsecureSkipTLSVerify, // the user has asked for it by the server's name
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

// dial makes a TLS connection, signed with the key that sign returns. If sign is nil, the
// connection has to resume a TLS session, and the status does not count it. The connection is cut
// when the upstream is closed. shared says that it takes requests of any client.
func (c *connections) dial(ctx context.Context, sign Signing, shared bool, protos ...string) (_ *conn, err error) {
	c.dials(1)
	defer c.dials(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	defer func() {
		if err != nil && c.ctx.Err() != nil {
			err = context.Cause(c.ctx)
		}
		if !errors.Is(err, errNotResumed) { // nothing has failed: see lanes
			c.record.note(err)
		}
	}()
	dialer := *c.dialer
	if sign == nil {
		dialer.net.Control = endUnacked(laneUnacked)
	}
	tctx, tcancel := context.WithTimeout(ctx, tcpTimeout)
	raw, err := dialer.dial(tctx)
	tcancel()
	if err != nil {
		return nil, err
	}
	ctx, cancelHandshake := context.WithTimeout(ctx, c.o.Handshake)
	defer cancelHandshake()
	key := handshakeKey{sign: sign, chain: c.o.Chain, signatures: &c.record.signatures}
	cfg := c.tls.Clone()
	cfg.NextProtos, cfg.GetClientCertificate = protos, key.certificate
	made := &conn{Conn: tls.Client(raw, cfg), of: c, ended: make(chan struct{})}
	if sign != nil {
		c.record.dials.Add(1)
	}
	if err := made.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one to report
		if key.refusal != nil {
			return nil, c.notSigned(ctx, key.refusal)
		}
		return nil, c.handshakeError(err)
	}
	resumed := made.ConnectionState().DidResume
	switch {
	case sign == nil && !resumed: // The server asked for no certificate, so it knows nobody here.
		_ = raw.Close()
		return nil, errNotResumed
	case sign != nil && resumed:
		c.record.resumed.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		_ = raw.Close()
		return nil, context.Cause(c.ctx)
	}
	c.open[made] = shared
	return made, nil
}

// handshakeKey is the client certificate of one handshake, and its key.
type handshakeKey struct {
	sign       Signing
	chain      []*x509.Certificate
	signatures *atomic.Uint64
	refusal    error // the reason why the key did not sign: crypto/tls keeps only the text
}

// certificate is called in a full handshake, when the server has asked for one.
func (k *handshakeKey) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if k.sign == nil {
		return nil, errNotResumed
	}
	signer, err := k.sign(info.Context())
	if err != nil {
		return nil, err
	}
	cert := &tls.Certificate{Leaf: k.chain[0], PrivateKey: handshakeSigner{signer, k}}
	for _, c := range k.chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}

type handshakeSigner struct {
	crypto.Signer
	key *handshakeKey
}

func (s handshakeSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	sig, err := s.Signer.Sign(rand, digest, opts)
	if err == nil {
		s.key.signatures.Add(1)
	} else {
		s.key.refusal = err
	}
	return sig, err
}

// handshakeError names the host, and tells a server that does not take our
// certificate from one that we do not trust.
func (c *connections) handshakeError(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return hint.Withf(
			fmt.Errorf("%w %s: its certificate is not trusted: %w", ErrUnreachable, c.dialer.address, untrusted.Err),
			"if the cluster has moved: `kubehsm kubeconfig refresh %s --server URL`; "+
				"if its authority was changed, enroll again with `%s`",
			c.o.Enrollment.Name, c.o.Enrollment.Command())
	case hsm.ErrorCode(err) != "": // the key was not to be had
		return fmt.Errorf("sign in to %s: %w", c.dialer.address, err)
	case alertOf(err) != nil:
		return fmt.Errorf("%w: %s broke the handshake off: %w", ErrUnauthorized, c.dialer.address, err)
	}
	return fmt.Errorf("%w %s: TLS handshake: %w", ErrUnreachable, c.dialer.address, err)
}

// notSigned words why the token made no signature for a handshake. The server was
// there: it has asked for one.
func (c *connections) notSigned(ctx context.Context, err error) error {
	if hsm.ErrorCode(err) == "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = hint.With(fmt.Errorf("%w: %w", ErrNotSigned, ctx.Err()),
			"run the command again, and answer the token's question within half a minute")
	}
	return fmt.Errorf("sign in to %s: %w", c.dialer.address, err)
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

// count counts the open connections, and those of them that take requests of any client.
func (c *connections) count() (open, shared int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.open {
		if s {
			shared++
		}
	}
	return len(c.open), shared
}

// dials counts n dials more.
func (c *connections) dials(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing += n
}

// any tells whether a connection is open or dialled.
func (c *connections) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)+c.dialing > 0
}

// retire lets the open connections finish what they carry: they count as taking no
// more requests.
func (c *connections) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for made := range c.open {
		c.open[made] = false
	}
}

// close cuts all connections and dials in flight, for the reason why.
func (c *connections) close(why error) {
	c.cancel(why)
	c.mu.Lock()
	open := make([]*conn, 0, len(c.open))
	for made := range c.open {
		open = append(open, made)
	}
	c.mu.Unlock()
	for _, made := range open {
		_ = made.NetConn().Close() // the peer may be gone already, so TLS's goodbye is left out
	}
	c.tickets.forget()
}

// conn is an open connection, known to connections until it is closed.
type conn struct {
	*tls.Conn
	of    *connections
	ended chan struct{} // closed when a Read has failed
	once  sync.Once
}

// Read notes that the peer broke TLS off: a TLS 1.3 server refuses a client
// certificate after the handshake has ended here, and the HTTP/2 transport
// reports that as any failed connection.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		if op := alertOf(err); op != nil {
			c.of.alert.Store(op)
		}
		c.once.Do(func() { close(c.ended) })
	}
	return n, err
}

// lastWords is how long a failed Write waits for the reader to find out why.
const lastWords = time.Second

// Write implements [net.Conn]. A server that refuses us sends an alert and
// closes: a request that is written then fails before its reader has seen the
// alert, which is the reason to report.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		return n, nil
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		select {
		case <-c.ended:
		case <-c.of.ctx.Done():
		case <-time.After(lastWords):
		}
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
