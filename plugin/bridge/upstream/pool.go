package upstream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/net/http2"
)

// maxDials bounds how often one request waits for a new connection: each may
// cost a signature.
const maxDials = 3

// pool is the HTTP/2 transport's connection pool for one API server. It is our
// own for three reasons: a dial is shared by all who wait for it, in every
// version of the library; who waits can give up; and a dial goes on as long as
// somebody waits, as a signature made for a caller that left would be lost.
type pool struct {
	dial func(ctx context.Context, sign Signing) (*http2.ClientConn, error)

	mu    sync.Mutex
	conns []*http2.ClientConn
	call  *dialCall
}

// dialCall is a dial in flight.
type dialCall struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	err     error
}

// signedPool is a pool as an [http2.ClientConnPool]; sign has the key for its new
// connections.
type signedPool struct {
	*pool
	sign Signing
}

// GetClientConn implements [http2.ClientConnPool].
func (p signedPool) GetClientConn(req *http.Request, _ string) (*http2.ClientConn, error) {
	return p.get(req.Context(), p.sign)
}

// get reserves a request on an open connection, or on one that is dialled for all who
// wait.
func (p *pool) get(ctx context.Context, sign Signing) (*http2.ClientConn, error) {
	for range maxDials {
		p.mu.Lock()
		for _, cc := range p.conns {
			if cc.ReserveNewRequest() {
				p.mu.Unlock()
				return cc, nil
			}
		}
		call := p.join(ctx, sign)
		p.mu.Unlock()
		if err := p.wait(ctx, call); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: it closes new connections at once", ErrUnreachable)
}

// join starts a dial or joins the one in flight. p.mu is held. The dial uses the
// first caller's sign and the values of its context (who can be asked), but does not end
// with that context.
func (p *pool) join(ctx context.Context, sign Signing) *dialCall {
	if p.call == nil {
		dctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		call := &dialCall{done: make(chan struct{}), cancel: cancel}
		p.call = call
		go func() {
			cc, err := p.dial(dctx, sign)
			cancel()
			p.mu.Lock()
			if p.call == call {
				p.call = nil
			}
			call.err = err
			if err == nil {
				p.conns = append(p.conns, cc)
			}
			p.mu.Unlock()
			close(call.done)
		}()
	}
	p.call.waiters++
	return p.call
}

func (p *pool) wait(ctx context.Context, call *dialCall) error {
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if call.waiters--; call.waiters == 0 {
			call.cancel()
			if p.call == call {
				p.call = nil // the next caller dials again
			}
		}
		return ctx.Err()
	}
}

// MarkDead implements [http2.ClientConnPool].
func (p *pool) MarkDead(cc *http2.ClientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(c *http2.ClientConn) bool { return c == cc })
}

// ping tells whether the API server answers a ping on an open connection.
func (p *pool) ping(ctx context.Context) bool {
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	return slices.ContainsFunc(conns, func(cc *http2.ClientConn) bool { return cc.Ping(ctx) == nil })
}

// live counts the connections that take requests.
func (p *pool) live() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, cc := range p.conns {
		if st := cc.State(); !st.Closed && !st.Closing {
			n++
		}
	}
	return n
}

// retire takes all connections out: their streams go on, new requests dial.
func (p *pool) retire(ctx context.Context) {
	p.mu.Lock()
	old := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, cc := range old {
		go func() { _ = cc.Shutdown(ctx) }() // ends with its last stream, or with ctx when the upstream is closed
	}
}
