// Package task runs the slow work of the terminal UI: each piece has an id by
// which its answer is recognized, a context by which it is really cancelled,
// and is waited for when the program ends.
package task

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/kubehsm/kubehsm/hsm"
)

// ID names one piece of work. 0 names none.
type ID uint64

// Runner starts work and carries messages from it to the program. Its methods
// are safe for concurrent use.
type Runner struct {
	// Finishing is told while work goes on that must not be left half-way; may be nil. It is
	// set before anything is started.
	Finishing hsm.Finishing

	ctx    context.Context
	cancel context.CancelFunc
	inbox  chan tea.Msg

	mu     sync.Mutex
	closed bool
	last   ID
	wg     sync.WaitGroup
}

// New returns a runner whose work ends with ctx.
func New(ctx context.Context) *Runner {
	ctx, cancel := context.WithCancel(ctx)
	return &Runner{ctx: ctx, cancel: cancel, inbox: make(chan tea.Msg)}
}

// Received wraps a message that came by [Runner.Send]: the root unwraps it and
// listens for the next.
type Received struct{ Msg tea.Msg }

// Listen returns the command that waits for the next message sent.
func (r *Runner) Listen() tea.Cmd {
	return func() tea.Msg {
		select {
		case m := <-r.inbox:
			return Received{Msg: m}
		case <-r.ctx.Done():
			return nil
		}
	}
}

// Send hands m to the program, in order. It blocks until the program takes it
// and gives up when the runner is closed.
func (r *Runner) Send(m tea.Msg) {
	select {
	case r.inbox <- m:
	case <-r.ctx.Done():
	}
}

// Handle names running work and cancels it. The zero Handle names none.
type Handle struct {
	ID     ID
	Began  time.Time
	cancel context.CancelFunc
}

// Active reports whether h names work that was started and not cancelled.
func (h Handle) Active() bool { return h.ID != 0 }

// Cancel cancels the work, if any, and forgets it.
func (h *Handle) Cancel() {
	if h.cancel != nil {
		h.cancel()
	}
	*h = Handle{}
}

// Stop cancels the work and goes on awaiting its answer.
func (h *Handle) Stop() {
	if h.cancel != nil {
		h.cancel()
	}
}

// Done forgets finished work.
func (h *Handle) Done() { h.Cancel() }

// Start prepares fn as a command. fn gets its own context and id, and returns
// the message with the answer.
func (r *Runner) Start(now time.Time, fn func(ctx context.Context, id ID) tea.Msg) (Handle, tea.Cmd) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.mu.Lock()
	r.last++
	id := r.last
	r.mu.Unlock()
	return Handle{ID: id, Began: now, cancel: cancel}, func() tea.Msg {
		if !r.enter() {
			cancel()
			return nil
		}
		defer r.wg.Done()
		return fn(ctx, id)
	}
}

func (r *Runner) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Add(1)
	return true
}

// Cancel cancels all work without waiting for it.
func (r *Runner) Cancel() { r.cancel() }

// Close cancels all work and waits for it, at most grace long: a driver library
// that hangs must not keep the program. It reports whether all work has ended.
func (r *Runner) Close(grace time.Duration) bool {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	ended := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(ended)
	}()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
		return false
	}
}
