//go:build unix

package worker

import (
	"sync"
	"time"
)

// Host is a worker process's own part: what its drivers say to the process that started
// it. See [Host.Serve].
type Host struct {
	mu        sync.Mutex
	sessions  map[*workerSession]struct{} // sessions whose parents want to be told
	finishing int
	idle      *sync.Cond // signaled when finishing is 0
}

// NewHost returns a host whose Finishing drivers can be made with.
func NewHost() *Host {
	h := &Host{sessions: map[*workerSession]struct{}{}}
	h.idle = sync.NewCond(&h.mu)
	return h
}

// begin is called at the beginning of an operation of s, ended at its end. wants says that
// the parent wants to know what must not be left half-way.
func (h *Host) begin(s *workerSession, wants bool) (ended func()) {
	if !wants {
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[s] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.sessions, s)
	}
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
