//go:build unix

package worker

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
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

// errHung is the cause when a library takes too long.
var errHung = errors.New("the worker takes too long")

// worker is the child's side: it holds one token, by drivers of its own.
type worker struct {
	tokens  Tokens
	drivers hsm.Drivers
	limit   time.Duration // abandonedTimeout, or a test's
	hung    func()        // callback for when the limit has passed
	mu      sync.Mutex
	token   Token
}

// Serve is the worker process: it does what the process that started it asks
// until that closes control, see [child.Control], or ctx ends; then it locks its
// token. It makes the process non-dumpable. The caller should exit when it
// returns: a library that hangs may still be at it.
func Serve(ctx context.Context, drivers hsm.Drivers, control *os.File) error {
	if err := errors.Join(child.Harden(), child.LockMemory()); err != nil {
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
	w := &worker{tokens: InProcess(drivers), drivers: drivers, limit: abandonedTimeout, hung: func() { end(errHung) }}
	for {
		c, err := child.ReceiveConn(conn)
		if err != nil { // the parent has gone, or wants us to
			break
		}
		go w.serve(ctx, c)
	}
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
	var err error
	if t := w.current(); t != nil {
		if err = errors.Join(t.Lock(), t.Close()); errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) {
			err = nil // the worker took its state along
		}
	}
	return errors.Join(err, w.tokens.Close())
}

func (w *worker) current() Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.token
}

// serve answers one connection's requests, one after another. Closing it cancels.
func (w *worker) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	l := link.NewServer(ctx, c, nil)
	s := &workerSession{worker: w, asker: link.NewAsker(l)}
	defer s.asker.Close()
	_ = l.Serve(func(r link.Received) error { // a parent that is gone needs no answer
		over := w.watch(l.Context())
		out, err := s.operate(l.Context(), r)
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
	signer crypto.Signer
	look   slotReader
}

func (s *workerSession) operate(ctx context.Context, r link.Received) (any, error) {
	switch r.Op {
	case opSurvey:
		return handle(ctx, r, s.worker.survey)
	case opSlots:
		return handle(ctx, r, func(ctx context.Context, q slotsRequest) (slotsAnswer, error) {
			return s.look.slotsFrom(ctx, s.worker.drivers, q)
		})
	case opTokenOpen:
		return handle(ctx, r, func(ctx context.Context, q named) (infoAnswer, error) { return s.worker.open(ctx, q.URI) })
	case opTokenAlive:
		return workerAnswer[nothing]{}, nil
	}
	t := s.worker.current()
	if t == nil {
		return nil, fmt.Errorf("%w: no token is open", wire.ErrFrame)
	}
	switch r.Op {
	case opTokenInfo:
		return handle(ctx, r, func(ctx context.Context, _ nothing) (infoAnswer, error) {
			info, err := t.Info(ctx)
			return infoAnswer{&info}, err
		})
	case opTokenSlot:
		return handle(ctx, r, func(ctx context.Context, q named) (slotAnswer, error) {
			slot, err := t.Slot(ctx, q.URI)
			if err != nil {
				return slotAnswer{}, err
			}
			packed, err := packSlot(slot)
			return slotAnswer{packed}, err
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

func (w *worker) open(ctx context.Context, u hsm.URI) (infoAnswer, error) {
	t, err := w.tokens.Open(ctx, u)
	if err != nil {
		return infoAnswer{}, err
	}
	info, err := t.Info(ctx)
	if err != nil {
		return infoAnswer{}, errors.Join(err, t.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.token != nil {
		return infoAnswer{}, errors.Join(fmt.Errorf("%w: a second token", wire.ErrFrame), t.Close())
	}
	w.token = t
	return infoAnswer{&info}, nil
}

// prepare gets the key for the next signature.
func (s *workerSession) prepare(ctx context.Context, t Token, q signerRequest) (signerAnswer, error) {
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
