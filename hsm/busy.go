package hsm

import (
	"fmt"
	"strings"
)

// Scdaemon is GnuPG's smart card daemon. It keeps a card for itself long after
// gpg or ssh used it, and lets go when it is told to.
const Scdaemon = "scdaemon"

// BusyError says that other programs hold a card. It wraps [ErrBusy].
type BusyError struct {
	Reader string
	// Holders are the programs that likely hold it, as "scdaemon (process 123)";
	// none where that cannot be known.
	Holders []string
}

func (e *BusyError) Error() string { return fmt.Sprintf("reader %q: %v", e.Reader, ErrBusy) }

// Unwrap returns [ErrBusy].
func (e *BusyError) Unwrap() error { return ErrBusy }

// Releasable tells whether [Scdaemon] is among the holders.
func (e *BusyError) Releasable() bool {
	for _, h := range e.Holders {
		if strings.HasPrefix(h, Scdaemon+" ") {
			return true
		}
	}
	return false
}

// Hint names the holders and the remedy.
func (e *BusyError) Hint() string {
	switch held := "likely held by " + strings.Join(e.Holders, ", "); {
	case e.Releasable():
		return held + "; `kubehsm token release` (`gpgconf --kill scdaemon`) releases it"
	case len(e.Holders) > 0:
		return held + "; close that program"
	}
	return "close other programs that use the token: a browser, an SSH agent, or gpg (`kubehsm token release`)"
}
