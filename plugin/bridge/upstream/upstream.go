package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// Upstream is the way to one API server with one key: a pooled HTTP/2
// connection (or HTTP/1.1 ones, if the server speaks nothing else), tunnels for
// upgrades, lanes for short reads, and TLS tickets for all, in memory only.
type Upstream struct {
	o         Options
	prefix    string // path prefix of the server's URL, without a slash at its end
	host      string
	conns     *connections
	transport *transport
	record    record
	rejected  atomic.Bool // a 401 was seen since the last Check
}

// New returns an upstream; it connects to nothing yet. Close it.
func New(o Options) (*Upstream, error) {
	o.Handshake = cmp.Or(o.Handshake, handshakeTimeout)
	u := &Upstream{o: o, record: record{log: o.Log, enrollment: o.Enrollment.Name}}
	server, err := url.Parse(o.Enrollment.Cluster.Server)
	if err == nil {
		u.conns, err = newConnections(o, server, &u.record)
	}
	if err != nil {
		return nil, fmt.Errorf("enrollment %s: %w", o.Enrollment.Name, err)
	}
	u.host, u.prefix = server.Host, strings.TrimSuffix(server.EscapedPath(), "/")
	u.transport = newTransport(u.conns)
	return u, nil
}

// Policy is the consent policy in force.
func (u *Upstream) Policy() consent.Policies { return u.o.Policy }

// Reach makes a TCP connection and closes it: is anybody there? Errors wrap
// [ErrUnreachable].
func (u *Upstream) Reach(ctx context.Context) error {
	c, err := u.conns.dialer.dial(ctx)
	u.record.note(err)
	if err != nil {
		return err
	}
	return c.Close()
}

// Check sends GET /version, over a new connection if none is open. Errors:
// [ErrUnreachable], [ErrUnauthorized], the signer's.
func (u *Upstream) Check(ctx context.Context) error { return u.check(ctx, u.transport.pooled) }

// SignIn is [Upstream.Check], and a connection that it opens is signed for by sign, in
// place of [Options.Signer].
func (u *Upstream) SignIn(ctx context.Context, sign Signing) error {
	return u.check(ctx, func(r *http.Request) (*http.Response, error) { return u.transport.signIn(r, sign) })
}

// Transport sends requests of the agent's own, which count as no use of the upstream. A connection
// that one of them opens is signed for by sign, in place of [Options.Signer].
func (u *Upstream) Transport(sign Signing) http.RoundTripper { return ownTransport{u, sign} }

type ownTransport struct {
	u    *Upstream
	sign Signing
}

// RoundTrip implements [http.RoundTripper].
func (t ownTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.u.transport.signIn(r, t.sign)
	if err != nil {
		return nil, t.u.roundTripError(r.Context(), err)
	}
	return resp, nil
}

func (u *Upstream) check(ctx context.Context, send func(*http.Request) (*http.Response, error)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+u.host+u.prefix+"/version", nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kubehsm")
	req.Header.Set("Accept", "application/json")
	resp, err := send(req)
	if err != nil {
		err = u.roundTripError(ctx, err)
		u.record.note(err)
		return err
	}
	defer resp.Body.Close()
	// TLS tickets come before the first answer's end: with the body read, later
	// connections resume.
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return fmt.Errorf("%w %s: %w", ErrUnreachable, u.conns.dialer.address, err)
	}
	u.record.lastAnswer.Store(time.Now().UnixNano())
	u.rejected.Store(resp.StatusCode == http.StatusUnauthorized)
	if resp.StatusCode == http.StatusUnauthorized {
		u.record.note(ErrUnauthorized)
		return fmt.Errorf("%s: %w", u.conns.dialer.address, ErrUnauthorized)
	}
	return nil
}

// roundTripError gives a transport's error its kind. TLS 1.3 servers refuse a
// certificate only after the handshake, when the first answer is awaited.
func (u *Upstream) roundTripError(ctx context.Context, err error) error {
	alert := cmp.Or(alertOf(err), u.conns.alert.Swap(nil))
	switch {
	case u.conns.ctx.Err() != nil:
		return context.Cause(u.conns.ctx)
	case ctx.Err() != nil:
		return ctx.Err()
	case hsm.ErrorCode(err) != "" || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnauthorized) ||
		errors.Is(err, ErrNotSigned):
		return err
	case errors.Is(err, context.Canceled): // the person who was asked for the signature has left
		return err
	case alert != nil:
		u.rejected.Store(true)
		return fmt.Errorf("%w: %s broke the connection off: %w", ErrUnauthorized, u.conns.dialer.address, alert)
	}
	return fmt.Errorf("%w %s: %w", ErrUnreachable, u.conns.dialer.address, err)
}

// Live tells whether a connection is open that takes requests.
func (u *Upstream) Live() bool { return u.transport.live() }

// Carries tells whether a connection is open or dialled, or a request in flight.
func (u *Upstream) Carries() bool { return u.record.inFlight.Load() > 0 || u.conns.any() }

// Rejected tells whether a 401 was seen since the last Check.
func (u *Upstream) Rejected() bool { return u.rejected.Load() }

// LastAnswer is when the API server last answered.
func (u *Upstream) LastAnswer() time.Time { return time.Unix(0, u.record.lastAnswer.Load()) }

// LastUsed is when a request last began or ended; a stream in flight is use too.
func (u *Upstream) LastUsed() time.Time {
	if u.record.inFlight.Load() > 0 {
		return time.Now()
	}
	return time.Unix(0, u.record.lastUsed.Load())
}

// Reset lets the open connections finish what they carry and makes new requests dial.
func (u *Upstream) Reset() { u.transport.retire() }

// Forget drops the TLS tickets: the next handshake needs a signature.
func (u *Upstream) Forget() { u.conns.tickets.forget() }

// Close is [Upstream.CloseFor] without a reason.
func (u *Upstream) Close() { u.CloseFor(nil) }

// CloseFor cuts everything: connections, tunnels, dials in flight. The TLS tickets
// go with it. It may be called more than once. why is a clause, or nil: what is cut off
// is told that, in an error that wraps both why and [ErrClosed].
func (u *Upstream) CloseFor(why error) {
	told := ErrClosed
	if why != nil {
		told = fmt.Errorf("%w: %w", ErrClosed, why)
	}
	u.conns.close(told)
	u.transport.close()
}

// Closed tells whether the upstream is closed.
func (u *Upstream) Closed() bool { return u.conns.ctx.Err() != nil }

// Status describes the upstream.
func (u *Upstream) Status() Status {
	open, _ := u.conns.count()
	r := &u.record
	st := Status{Enrollment: u.o.Enrollment.Name, Server: u.o.Enrollment.Cluster.Server, Protocol: u.transport.protocol(),
		Connections: open, Requests: r.requests.Load(), InFlight: r.inFlight.Load(), Dials: r.dials.Load(),
		Resumed: r.resumed.Load(), Signatures: r.signatures.Load(), Rejected: u.rejected.Load()}
	if len(u.o.Chain) > 0 {
		st.CertificateEnds = u.o.Chain[0].NotAfter
	}
	if ns := r.lastUsed.Load(); ns != 0 {
		st.LastUsed = time.Unix(0, ns)
	}
	st.LastError, _ = r.lastError.Load().(string)
	return st
}
