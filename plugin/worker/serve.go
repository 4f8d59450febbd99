//go:build unix

package worker

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
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
	switch r.Op {
	case opSurvey:
		return handle(ctx, r, s.worker.survey)
	case opInitialize:
		return handle(ctx, r, s.initialize)
	case opWatch:
		return handle(ctx, r, s.worker.watchTokens)
	case opTokenOpen:
		return handle(ctx, r, func(ctx context.Context, q named) (infoAnswer, error) {
			return s.worker.openToken(ctx, q.URI)
		})
	case opTokenAlive:
		return workerAnswer[nothing]{}, nil
	}
	var q workerRequest[nothing]
	if err := r.Decode(&q); err != nil {
		return nil, err
	}
	t := s.worker.token(q.Handle)
	if t == nil {
		return nil, fmt.Errorf("%w: no such token is open", wire.ErrFrame)
	}
	if r.Op == opTokenClose {
		return workerAnswer[nothing]{}, s.worker.closeToken(q.Handle, t)
	}
	if out, err, ok := s.administer(ctx, t, r); ok {
		return out, err
	}
	return s.use(ctx, t, r)
}

// use does what keys are used for.
func (s *workerSession) use(ctx context.Context, t hsm.Token, r link.Received) (any, error) {
	switch r.Op {
	case opTokenInfo:
		return handle(ctx, r, func(ctx context.Context, _ nothing) (infoAnswer, error) {
			info, err := t.Info(ctx)
			return infoAnswer{Info: &info}, err
		})
	case opTokenSlot:
		return handle(ctx, r, func(ctx context.Context, q named) (slotAnswer, error) {
			return packed(t.Slot(ctx, q.URI))
		})
	case opTokenSlots:
		return handle(ctx, r, func(ctx context.Context, q slotsRequest) (slotsAnswer, error) {
			return s.look.slotsFrom(ctx, t, q, s.prompter(q.asking))
		})
	case opTokenUnlock:
		return handle(ctx, r, func(ctx context.Context, q asking) (nothing, error) {
			return nothing{}, t.Unlock(ctx, s.prompter(q))
		})
	case opTokenState:
		return workerAnswer[stateAnswer]{Token: stateAnswer{t.Unlocked()}}, nil
	case opTokenLock:
		return workerAnswer[nothing]{}, t.Lock()
	case opTokenRemoved:
		return workerAnswer[nothing]{}, s.worker.tokens.Removed(ctx, t)
	case opTokenSigner:
		return handle(ctx, r, func(ctx context.Context, q signerRequest) (signerAnswer,
			error) {
			return s.prepare(ctx, t, q)
		})
	case opTokenSign:
		return handle(ctx, r, s.sign)
	}
	return nil, fmt.Errorf("%w: operation %q", wire.ErrFrame, r.Op)
}

// packed is a slot fit to be sent.
func packed(s hsm.Slot, err error) (slotAnswer, error) {
	if err != nil {
		return slotAnswer{}, err
	}
	p, err := packSlot(s)
	return slotAnswer{p}, err
}

// handle runs do, which is one operation.
func handle[Q, A any](ctx context.Context, r link.Received, do func(context.Context, Q) (A, error)) (any, error) {
	var q workerRequest[Q]
	if err := r.Decode(&q); err != nil {
		return nil, err
	}
	out, err := do(ctx, q.Token)
	return workerAnswer[A]{Token: out}, err
}

// prompter is who can be asked, or nil.
func (s *workerSession) prompter(q asking) hsm.Prompter {
	if !q.Asks {
		return nil
	}
	return ask.Func(s.asker.Ask)
}

// openToken opens a token, which gets the next handle.
func (w *worker) openToken(ctx context.Context, u hsm.URI) (infoAnswer, error) {
	t, err := w.drivers.Open(ctx, u)
	if err != nil {
		return infoAnswer{}, err
	}
	info, err := t.Info(ctx)
	if err != nil {
		return infoAnswer{}, errors.Join(err, t.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	handle := w.opened
	w.opened++
	w.open[handle] = t
	return infoAnswer{&info, handle}, nil
}

// closeToken closes a token, whose handle is not used again.
func (w *worker) closeToken(handle int, t hsm.Token) error {
	w.mu.Lock()
	delete(w.open, handle)
	w.mu.Unlock()
	return t.Close()
}

// watchTokens returns when tokens may have come or gone.
func (w *worker) watchTokens(ctx context.Context, q watchRequest) (nothing, error) {
	for _, d := range w.drivers {
		if watcher, ok := d.(hsm.Watcher); ok && d.Scheme() == q.Scheme {
			return nothing{}, watcher.Watch(ctx)
		}
	}
	return nothing{}, hsm.ErrUnsupported
}

// initialize sets a token up.
func (s *workerSession) initialize(ctx context.Context, q initializeRequest) (infoAnswer, error) {
	for _, d := range s.worker.drivers {
		if i, ok := d.(hsm.Initializer); ok && d.Scheme() == q.URI.Scheme {
			info, err := i.Initialize(ctx, q.URI, q.Options, s.prompter(q.asking))
			return infoAnswer{Info: &info}, err
		}
	}
	return infoAnswer{}, hsm.ErrUnsupported
}

// prepare gets the key for the next signatures.
func (s *workerSession) prepare(ctx context.Context, t hsm.Token, q signerRequest) (signerAnswer, error) {
	var want crypto.PublicKey
	var err error
	if len(q.Want) > 0 {
		if want, err = x509.ParsePKIXPublicKey(q.Want); err != nil {
			return signerAnswer{}, err
		}
	}
	if s.signer, err = t.Signer(ctx, q.URI, want, s.prompter(q.asking)); err != nil {
		return signerAnswer{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(s.signer.Public())
	return signerAnswer{public}, err
}

func (s *workerSession) sign(_ context.Context, q signatureRequest) (signatureAnswer, error) {
	if s.signer == nil {
		return signatureAnswer{}, fmt.Errorf("%w: no signer", wire.ErrFrame)
	}
	signature, err := s.signer.Sign(rand.Reader, q.Digest, q.options())
	return signatureAnswer{signature}, err
}
