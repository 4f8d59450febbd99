//go:build unix

package worker

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// Host is a worker process's own part: what its drivers say to the process that started
// it. See [Host.Serve].
type Host struct {
	mu        sync.Mutex
	sessions  map[*workerSession]struct{} // sessions whose parents want to be told
	finishing int
	idle      *sync.Cond // signaled when finishing is 0
}

// NewHost returns a host whose Busy and Finishing drivers can be made with.
func NewHost() *Host {
	h := &Host{sessions: map[*workerSession]struct{}{}}
	h.idle = sync.NewCond(&h.mu)
	return h
}

type sessionKey struct{}

// begin is called at the beginning of an operation of s, ended at its end. wants says that
// the parent wants to know what must not be left half-way.
func (h *Host) begin(ctx context.Context, s *workerSession, wants bool) (_ context.Context, ended func()) {
	ctx = context.WithValue(ctx, sessionKey{}, s)
	if !wants {
		return ctx, func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[s] = struct{}{}
	return ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.sessions, s)
	}
}

// Busy asks the parent to have a held card released, for the operation whose context ctx is.
func (h *Host) Busy(ctx context.Context, held *hsm.BusyError) bool {
	s, ok := ctx.Value(sessionKey{}).(*workerSession)
	return ok && s.asker.Release(ctx, held)
}

// Finishing is an [hsm.Finishing].
func (h *Host) Finishing() (done func()) {
	h.tell(1)
	return sync.OnceFunc(func() { h.tell(-1) })
}

// tell tells all parents who wait that something has begun, or has ended. One that does not
// hear it has gone.
func (h *Host) tell(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finishing += n
	for s := range h.sessions {
		_ = s.server.Finishing(n > 0)
	}
	if h.finishing == 0 {
		h.idle.Broadcast()
	}
}

// finished returns when nothing has to be finished, or after limit.
func (h *Host) finished(limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	over := false
	defer time.AfterFunc(limit, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		over = true
		h.idle.Broadcast()
	}).Stop()
	for h.finishing > 0 && !over {
		h.idle.Wait()
	}
}
