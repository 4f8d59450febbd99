//go:build unix

package worker

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// letGo bounds how long a worker tries to lock its token before it ends.
const letGo = 6 * time.Second

// abandonedTimeout bounds how long a library may go on with what nobody waits
// for any more. A card gives up its wait for a touch far sooner.
const abandonedTimeout = 30 * time.Second

// finishTimeout bounds how long a worker whose parent has gone is at what must not be left
// half-way: as long as a card may search for a key. A library that hangs there would else keep
// the process, and the PIN in it, for good.
const finishTimeout = makeTimeout

// errHung is the cause when a library takes too long.
var errHung = errors.New("the worker takes too long")

// worker is the child's side: it has tokens open, by drivers of its own.
type worker struct {
	host    *Host
	tokens  Tokens
	drivers hsm.Drivers
	limit   time.Duration // abandonedTimeout, or a test's
	hung    func()        // callback for when the limit has passed
	mu      sync.Mutex
	open    map[int]hsm.Token
	opened  int
}

// Serve is the worker process: it does what the process that started it asks
// until that closes control, see [child.Control], or ctx ends; then it locks the
// tokens that are still open, once nothing has to be finished. It makes the process
// non-dumpable. The drivers are made with h's Finishing. The caller should exit
// when it returns: a library that hangs may still be at it.
func (h *Host) Serve(ctx context.Context, drivers hsm.Drivers, control *os.File) error {
	if err := errors.Join(hsm.Harden(), child.LockMemory()); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	debug.SetGCPercent(50) // a worker is small and idle
	conn, err := child.Conn(control)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer conn.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &worker{host: h, tokens: InProcess(drivers), drivers: drivers, limit: abandonedTimeout,
		hung: func() { end(errHung) }, open: map[int]hsm.Token{}}
	for {
		c, err := child.ReceiveConn(conn)
		if err != nil { // the parent has gone, or wants us to
			break
		}
		go w.serve(ctx, c)
	}
	h.finished(finishTimeout)
	done := make(chan error, 1)
	go func() { done <- w.close() }()
	select {
	case err := <-done:
		if errors.Is(context.Cause(ctx), errHung) {
			err = errors.Join(errHung, err)
		}
		return err
	case <-time.After(letGo):
		return errors.New("worker: the token could not be locked in time")
	}
}

func (w *worker) close() error {
	w.mu.Lock()
	left := slices.Collect(maps.Values(w.open))
	w.mu.Unlock()
	var all error
	for _, t := range left {
		err := errors.Join(t.Lock(), t.Close())
		if errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) {
			err = nil // the worker took its state along
		}
		all = errors.Join(all, err)
	}
	return errors.Join(all, w.tokens.Close())
}

// token returns the token of that handle, or nil.
func (w *worker) token(handle int) hsm.Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[handle]
}

// serve answers one connection's requests, one after another. Closing it cancels.
func (w *worker) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	l := link.NewServer(ctx, c, nil)
	s := &workerSession{worker: w, asker: link.NewAsker(l), server: l}
	defer s.asker.Close()
	_ = l.Serve(func(r link.Received) error { // a parent that is gone needs no answer
		over := w.watch(l.Context())
		ended := w.host.begin(s, r.Finishing)
		out, err := s.operate(l.Context(), r)
		ended()
		over()
		if err != nil {
			return l.Fail(err)
		}
		return l.Answer(out)
	})
}

// watch ends the worker if the library goes on for long after ctx, whose end
// should have ended the operation: nobody waits for it who would notice, and the
// next one would only wait as long.
func (w *worker) watch(ctx context.Context) (over func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(w.limit):
			w.hung()
		}
	})
	return func() { stop(); close(done) }
}

// workerSession is what a connection's requests leave for later ones.
type workerSession struct {
	worker *worker
	asker  *link.Asker
	server *link.Server
	signer crypto.Signer
	look   slotReader
}

// operate does what was asked for.
func (s *workerSession) operate(ctx context.Context, r link.Received) (any, error) {
	op, known := operations[r.Op]
	if !known {
		return nil, fmt.Errorf("%w: operation %q", wire.ErrFrame, r.Op)
	}
	var q request
	if err := r.Decode(&q); err != nil {
		return nil, err
	}
	a := asked{q.Token, s, q.Handle, s.worker.token(q.Handle), nil}
	if a.token == nil && !op.source {
		return nil, fmt.Errorf("%w: no such token is open", wire.ErrFrame)
	}
	if q.Token.Asks {
		a.person = ask.Func(s.asker.Ask)
	}
	out, err := op.do(ctx, a)
	return answer{Token: out}, err
}
