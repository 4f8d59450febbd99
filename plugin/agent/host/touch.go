package host

import (
	"context"
	"crypto"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// touchTimeout bounds the wait for a touch that no handshake bounds. Most cards
// give up after 15 s themselves.
const touchTimeout = time.Minute

// touchWatch knows whether a touch was awaited when ctx ended: some tokens wait for
// one without end, and whoever waits for the signature gives up first.
type touchWatch struct {
	next    ask.Func
	ctx     context.Context
	awaited atomic.Int32
	shown   atomic.Bool
}

// ask is an [ask.Func].
func (w *touchWatch) ask(ctx context.Context, q ask.Question) (ask.Answer, error) {
	if q.Touch == nil {
		return w.next(ctx, q)
	}
	w.shown.Store(true)
	a, err := w.next(ctx, q)
	if q.Touch.Pad != "" {
		return a, err
	}
	if err != nil { // the token waits for its touch although nothing is shown
		a = ask.Answer{}
	}
	w.awaited.Add(1)
	return ask.Answer{Done: sync.OnceFunc(func() {
		if w.ctx.Err() == nil {
			w.awaited.Add(-1)
		}
		a.Down()
	})}, nil
}

// takenDownTimeout bounds the wait for a touch line to be gone.
const takenDownTimeout = 2 * time.Second

// takenDown waits until the touch line that was shown is gone from the terminal, which
// the program that has waited writes to next. Who shows it does one thing after the
// other: a question that comes after the end of a touch is answered after it.
func (w *touchWatch) takenDown() {
	if !w.shown.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, takenDownTimeout)
	defer cancel()
	_, _ = w.next(ctx, ask.Question{Reach: true}) // the answer does not matter: the touch line is gone by then
}

// explain tells of the touch, if it was one that nobody made in time.
func (w *touchWatch) explain(err error) error {
	if w.awaited.Load() == 0 || !errors.Is(w.ctx.Err(), context.DeadlineExceeded) || hsm.ErrorCode(err) != "" {
		return err
	}
	return hint.With(hsm.ErrTouchTimeout, "touch the token while it blinks")
}

// touchedSigner returns when the touch line is gone: who has waited for the signature
// writes to the terminal next.
type touchedSigner struct {
	crypto.Signer
	watch *touchWatch
}

func (s touchedSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	signature, err := s.Signer.Sign(rand, digest, opts)
	if err != nil {
		return nil, s.watch.explain(err)
	}
	s.watch.takenDown()
	return signature, nil
}
