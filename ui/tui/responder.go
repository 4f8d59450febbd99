package tui

import (
	"context"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// respond answers the agent's questions with dialogs while the terminal UI is open. While another
// dialog is open it declines, so that a PIN being typed never ends up in a dialog that has just
// appeared.
func respond(next ask.Func, busy func() bool) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if busy() && (q.PIN != nil || q.Confirm != nil) {
			return ask.Answer{}, hsm.ErrNoTerminal
		}
		return next(ctx, q)
	}
}

// offerAgain is how soon a missing agent is looked for again. An agent that kubectl has just
// started asks for the PIN within a few tenths of a second.
const offerAgain = 100 * time.Millisecond

// offer offers to answer for one agent after the other until ctx ends.
func offer(ctx context.Context, once func(context.Context) error) error {
	for {
		if err := once(ctx); errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		t := time.NewTimer(offerAgain)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}
