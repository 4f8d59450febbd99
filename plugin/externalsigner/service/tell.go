package service

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// teller sends prompts to one client, until its answer is made: a stream takes
// one message at a time.
type teller struct {
	send func(text string) error
	fail context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
}

func (t *teller) tell(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if err := t.send(oneLine(text)); err != nil {
		t.closed = true
		t.fail(err) // the client is gone
	}
}

func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// touchDelay is how long a token may take to sign before a touch is spoken of:
// most answer without one.
const touchDelay = 200 * time.Millisecond

// Announced tells the client's user that there is something to answer or to touch. where
// follows "answer", as "in the window".
func Announced(where string, tell func(text string)) ask.Middleware {
	return func(next ask.Func) ask.Func {
		return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
			switch {
			case q.PIN != nil:
				text := "kubehsm asks for the " + string(q.PIN.Kind) + " of " + q.PIN.Token.Name() + ": answer " + where
				if q.PIN.Again != "" {
					text = q.PIN.Again + "; " + text
				}
				tell(text)
			case q.Touch != nil:
				late := time.AfterFunc(touchDelay, func() { tell(touchWords(*q.Touch)) })
				a, err := next(ctx, q) // the client's user is told also where nothing can be shown
				if err != nil {
					a = ask.Answer{}
				}
				return ask.Answer{Done: func() {
					late.Stop()
					a.Down()
				}}, nil
			case q.Confirm != nil:
				tell("kubehsm has a question: answer it " + where)
			}
			return next(ctx, q)
		}
	}
}

func touchWords(p hsm.TouchPrompt) string {
	if p.Pad != "" {
		return "type the " + string(p.Pad) + " of " + p.Token.Name() + " on its reader"
	}
	return "touch " + p.Token.Name() + " when it blinks"
}
