package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// dialTLS makes a TLS connection. It is cut when the upstream is closed.
func (u *Upstream) dialTLS(ctx context.Context, protos ...string) (_ *conn, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(u.ctx, cancel)
	defer stop()
	defer func() {
		if err != nil && u.ctx.Err() != nil {
			err = context.Cause(u.ctx)
		}
		u.note(err)
	}()
	tctx, tcancel := context.WithTimeout(ctx, tcpTimeout)
	raw, err := u.dialer.dial(tctx)
	tcancel()
	if err != nil {
		return nil, err
	}
	ctx, cancelHandshake := context.WithTimeout(ctx, u.o.Handshake)
	defer cancelHandshake()
	cfg := u.tls.Clone()
	cfg.NextProtos = protos
	c := &conn{Conn: tls.Client(raw, cfg), u: u, ended: make(chan struct{})}
	u.dials.Add(1)
	var refusal error
	if err := c.HandshakeContext(context.WithValue(ctx, refusalKey{}, &refusal)); err != nil {
		_ = raw.Close() // the handshake's error is the one to report
		if refusal != nil {
			return nil, u.notSigned(ctx, refusal)
		}
		return nil, u.handshakeError(err)
	}
	if c.ConnectionState().DidResume {
		u.resumed.Add(1)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ctx.Err() != nil {
		_ = raw.Close()
		return nil, context.Cause(u.ctx)
	}
	u.conns[c] = struct{}{}
	return c, nil
}

// handshakeError names the host, and tells a server that does not take our
// certificate from one that we do not trust.
func (u *Upstream) handshakeError(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return hint.Withf(fmt.Errorf("%w %s: its certificate is not trusted: %w", ErrUnreachable, u.dialer.address, untrusted.Err), "if the cluster has moved: `kubehsm kubeconfig refresh %s --server URL`; if its authority was changed, enroll again with `%s`", u.o.Enrollment.Name, u.o.Enrollment.Command())
	case hsm.ErrorCode(err) != "": // the key was not to be had
		return fmt.Errorf("sign in to %s: %w", u.dialer.address, err)
	case alertOf(err) != nil:
		return fmt.Errorf("%w: %s broke the handshake off: %w", ErrUnauthorized, u.dialer.address, err)
	}
	return fmt.Errorf("%w %s: TLS handshake: %w", ErrUnreachable, u.dialer.address, err)
}

// notSigned words why the token made no signature for a handshake. The server was
// there: it has asked for one.
func (u *Upstream) notSigned(ctx context.Context, err error) error {
	if hsm.ErrorCode(err) == "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = hint.With(fmt.Errorf("%w: %w", ErrNotSigned, ctx.Err()), "run the command again, and answer the token's question within half a minute")
	}
	return fmt.Errorf("sign in to %s: %w", u.dialer.address, err)
}

// conn is an open connection, known to its upstream until it is closed.
type conn struct {
	*tls.Conn
	u     *Upstream
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
			c.u.alert.Store(op)
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
		case <-c.u.ctx.Done():
		case <-time.After(lastWords):
		}
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.u.mu.Lock()
	delete(c.u.conns, c)
	c.u.mu.Unlock()
	return c.Conn.Close()
}

func (u *Upstream) dialH2(ctx context.Context) (*http2.ClientConn, error) {
	c, err := u.dialTLS(ctx, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	if c.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		u.http1.Store(true)
		u.setSpare(c)
		return nil, errHTTP1
	}
	cc, err := u.h2.NewClientConn(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return cc, nil
}

func (u *Upstream) dialH1(ctx context.Context) (net.Conn, error) {
	u.mu.Lock()
	c := u.spare
	u.spare = nil
	u.mu.Unlock()
	if c != nil {
		return c, nil
	}
	return u.dialTLS(ctx, "http/1.1")
}

// setSpare keeps c, which has cost a signature, for the first HTTP/1.1 request.
func (u *Upstream) setSpare(c *conn) {
	u.mu.Lock()
	old := u.spare
	u.spare = c
	u.mu.Unlock()
	if old != nil {
		_ = old.Close() // it was never used
	}
}
