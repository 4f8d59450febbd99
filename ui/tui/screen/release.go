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
	return Operation{Title: "Release the card from scdaemon", Command: "kubehsm token release", Writes: true,
		Run: func(ctx context.Context, _ hsm.Prompter) (Report, error) {
			return Report{Said: "scdaemon released the card; gpg starts it again when needed"}, token.ReleaseScdaemon(ctx)
		}}
}
