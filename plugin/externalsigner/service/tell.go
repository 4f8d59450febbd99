package service

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
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

// Told is a prompter that asks p and tells the client's user that there is
// something to answer or to touch. where follows "answer", as "in the window".
func Told(p hsm.Prompter, where string, tell func(text string)) hsm.Prompter {
	return told{p, where, tell}
}

type told struct {
	hsm.Prompter
	where string
	tell  func(text string)
}

// PIN implements [hsm.Prompter].
func (t told) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	text := "kubehsm asks for the " + string(p.Kind) + " of " + p.Token.Name() + ": answer " + t.where
	if p.Again != "" {
		text = p.Again + "; " + text
	}
	t.tell(text)
	return t.Prompter.PIN(ctx, p)
}

// Touch implements [hsm.Prompter].
func (t told) Touch(ctx context.Context, p hsm.TouchPrompt) func() {
	words := "touch " + p.Token.Name() + " when it blinks"
	if p.Pad != "" {
		words = "type the " + string(p.Pad) + " of " + p.Token.Name() + " on its reader"
	}
	late := time.AfterFunc(touchDelay, func() { t.tell(words) })
	done := t.Prompter.Touch(ctx, p)
	return func() {
		late.Stop()
		done()
	}
}

// Confirm implements [hsm.Prompter].
func (t told) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	t.tell("kubehsm has a question: answer it " + t.where)
	return t.Prompter.Confirm(ctx, p)
}
