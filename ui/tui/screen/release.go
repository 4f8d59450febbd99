package screen

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Releasable tells whether a card is held by GnuPG's daemon, which lets go of it
// when it is told to.
func Releasable(err error) bool {
	var busy *hsm.BusyError
	return errors.As(err, &busy) && busy.Releasable()
}

// Release has GnuPG's daemon let go of all cards.
func Release() Operation {
	return Operation{Title: "Have scdaemon let go of the card", Command: "kubehsm token release", Writes: true,
		Run: func(ctx context.Context, _ hsm.Prompter) (Report, error) {
			return Report{Said: "scdaemon has let go; gpg starts it again when it needs it"}, token.ReleaseScdaemon(ctx)
		}}
}
