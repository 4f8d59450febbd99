package agent

import (
	"context"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/desktop"
)

// nobody is there to be asked; a desktop may show that the token waits.
type nobody struct {
	notify     *desktop.Notifier
	enrollment string
}

func (nobody) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) { return nil, hsm.ErrNoTerminal }

func (n nobody) Touch(_ context.Context, p hsm.TouchPrompt) (done func()) {
	const soon = 200 * time.Millisecond // most tokens answer without a touch
	what := "The token waits for your touch"
	if p.Pad != "" {
		what = "The token's reader waits for your " + string(p.Pad)
	}
	t := time.AfterFunc(soon, func() {
		n.notify.Say(what + ": the connection to " + n.enrollment + " is opened again.")
	})
	return func() { t.Stop() }
}

func (nobody) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) {
	return false, hsm.ErrNoTerminal
}
