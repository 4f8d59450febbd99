package tui

import (
	"context"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// respond is offered to the agent while the terminal UI is open: what kubectl
// needs of a person comes up here as a dialog. While another dialog is open it
// declines, so that the agent asks elsewhere: a PIN that is being typed must
// not end up in a dialog for another one.
func respond(next ask.Func, busy func() bool) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if busy() && (q.PIN != nil || q.Confirm != nil) {
			return ask.Answer{}, hsm.ErrNoTerminal
		}
		return next(ctx, q)
	}
}

// offerAgain is how long it takes until an agent that was not there is looked for
// again. One that kubectl has just started asks for the PIN a few tenths of a
// second later, and has nobody to ask until it was found.
const offerAgain = 100 * time.Millisecond

// offer keeps offering to whichever agent runs, until ctx ends. once offers to one agent,
// until that agent ends.
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
