package token

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// Use is what a token is used for.
type Use struct {
	// Client is the program that the token is used for.
	Client process.ID
	// Purpose is shown on prompts.
	Purpose hsm.Purpose
	// Ask asks the person; nil asks nobody.
	Ask ask.Func
	// Given says that Ask has the PIN at hand: [Held.Unlock] withdraws a question for it.
	Given bool
}

// ask returns what puts the token's questions to u.Ask; nil if u asks nobody. It adds what
// the token is used for and what the person is to be told, keeps the question among the
// open ones, and lets w know of touches.
func (h *Held) ask(u Use, w *touches) ask.Func {
	if u.Ask == nil {
		return nil
	}
	return ask.For(u.Purpose)(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Reach {
			return u.Ask(ctx, q)
		}
		if q.PIN != nil && (q.PIN.New || q.PIN.Kind != hsm.UserPIN && q.PIN.Kind != hsm.PIVPIN) {
			return ask.Answer{}, fmt.Errorf("%w: the library asks for the %s, which no signature takes", hsm.ErrModule,
				q.PIN.Kind)
		}
		var over func()
		q.Shown, over = h.questions.note(h.waitFor(u.Client, q))
		seen := func() {}
		if q.Confirm == nil && h.o.Notice != nil {
			var notice string
			notice, seen = h.o.Notice(h)
			q = ask.Noticed(q, notice)
		}
		if q.Touch != nil {
			return w.show(ctx, u.Ask, q, over, seen), nil
		}
		defer over()
		a, err := u.Ask(ctx, q)
		if err == nil && q.PIN != nil && !a.Given {
			w.noted(seen)
		}
		return a, err
	})
}

// slow returns ctx for operations of a token: who waits for them is told when the library
// is slow.
func (s *Questions) slow(ctx context.Context) context.Context {
	return worker.WithWaiting(ctx, func(library string) (done func()) {
		_, done = s.note(ask.Wait{For: ask.ForLibrary, Token: library})
		return done
	})
}

// waitFor says what others wait for while the question q, asked for client, is open.
func (h *Held) waitFor(client process.ID, q ask.Question) ask.Wait {
	w := ask.Wait{Client: client}
	switch {
	case q.PIN != nil:
		w.For, w.Kind, w.Token = ask.ForPIN, string(q.PIN.Kind), q.PIN.Token.Name()
	case q.Touch == nil:
		w.For, w.Token = ask.ForAnswer, cmp.Or(h.uri.Token, h.uri.Serial)
	case q.Touch.Pad != "":
		w.For, w.Kind, w.Token = ask.ForPIN, string(q.Touch.Pad), q.Touch.Token.Name()
	default:
		w.For, w.Token = ask.ForTouch, q.Touch.Token.Name()
	}
	return w
}

// touches knows whether a touch was awaited when ctx ended: some tokens wait for
// one without end, and whoever waits for the signature gives up first. It keeps which notices a
// person had time to read, until the token has taken their PIN or touch.
type touches struct {
	ctx     context.Context
	awaited atomic.Int32
	shown   atomic.Bool

	mu   sync.Mutex
	read []func()
}

// noted keeps seen, which says that a notice was read.
func (w *touches) noted(seen func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = append(w.read, seen)
}

// taken says that the token has taken the PIN or the touch: the notices before it count as seen.
func (w *touches) taken() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seen := range w.read {
		seen()
	}
	w.read = nil
}

func newTouches(ctx context.Context) *touches { return &touches{ctx: ctx} }

// readTime is how long a touch line must be shown before its notices count as seen.
const readTime = 2 * time.Second

// show has next show a touch. When the touch is done it calls over, and notes seen if there was
// time to read. An error of next is none here: the token waits for its touch anyway.
func (w *touches) show(ctx context.Context, next ask.Func, q ask.Question, over, seen func()) ask.Answer {
	w.shown.Store(true)
	began := time.Now()
	a, err := next(ctx, q)
	if err != nil {
		a = ask.Answer{}
	}
	onPad := q.Touch.Pad != ""
	if !onPad {
		w.awaited.Add(1)
	}
	return ask.Answer{Done: sync.OnceFunc(func() {
		over()
		if !onPad && w.ctx.Err() == nil {
			w.awaited.Add(-1)
		}
		a.Down()
		if time.Since(began) >= readTime {
			w.noted(seen)
		}
	})}
}

// takenDownTimeout bounds the wait for a touch line to be gone.
const takenDownTimeout = 2 * time.Second

// takenDown waits until the touch line is gone from the terminal, since the program that
// has waited writes there next. To find out it puts a question by p: whoever shows the line
// does one thing after the other, and so answers when the line is gone.
func (w *touches) takenDown(p ask.Func) {
	if !w.shown.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, takenDownTimeout)
	defer cancel()
	_, _ = p(ctx, ask.Question{Reach: true}) // the answer does not matter: the touch line is gone by then
}

// givenUp tells whether a touch was awaited when ctx ended.
func (w *touches) givenUp() bool { return w.awaited.Load() > 0 && w.ctx.Err() != nil }

// explain returns [hsm.ErrTouchTimeout] in place of err, if nobody touched the token in
// time.
func (w *touches) explain(err error) error {
	if w.awaited.Load() == 0 || !errors.Is(w.ctx.Err(), context.DeadlineExceeded) || hsm.ErrorCode(err) != "" {
		return err
	}
	return hint.With(hsm.ErrTouchTimeout, "touch the token while it blinks")
}

// touchedSigner returns when the touch line is gone: who has waited for the signature
// writes to the terminal next.
type touchedSigner struct {
	crypto.Signer
	held    *Held
	touches *touches
	person  ask.Func
}

// Sign implements [crypto.Signer].
func (s touchedSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	defer s.held.atWork()()
	signature, err := s.Signer.Sign(rand, digest, opts)
	if err != nil {
		s.held.waits.Store(s.touches.givenUp())
		return nil, s.touches.explain(err)
	}
	s.touches.takenDown(s.person)
	s.touches.taken()
	return signature, nil
}
