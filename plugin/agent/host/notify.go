package host

import (
	"context"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/desktop"
)

// nobody is there to be asked; a desktop may show that the token waits.
func nobody(notify *desktop.Notifier, enrollment string) ask.Func {
	return func(_ context.Context, q ask.Question) (ask.Answer, error) {
		if q.Touch == nil {
			return ask.Answer{}, hsm.ErrNoTerminal
		}
		const soon = 200 * time.Millisecond // most tokens answer without a touch
		what := "The token waits for your touch"
		if q.Touch.Pad != "" {
			what = "The token's reader waits for your " + string(q.Touch.Pad)
		}
		t := time.AfterFunc(soon, func() {
			notify.Say(what + ": the connection to " + enrollment + " is opened again.")
		})
		return ask.Answer{Done: func() { t.Stop() }}, nil
	}
}
