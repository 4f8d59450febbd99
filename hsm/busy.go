package hsm

import (
	"fmt"
	"slices"
	"strings"
)

// Scdaemon is GnuPG's smart card daemon. It keeps a card for itself long after
// gpg or ssh used it, and ends when it is told to.
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

// Hint names the holders and the remedy.
func (e *BusyError) Hint() string {
	held := "likely held by " + strings.Join(e.Holders, ", ")
	switch {
	case slices.ContainsFunc(e.Holders, func(h string) bool { return strings.HasPrefix(h, Scdaemon+" ") }):
		return held + "; `gpgconf --kill scdaemon` releases it"
	case len(e.Holders) > 0:
		return held + "; close that program"
	}
	return "close other programs that use the token: a browser, an SSH agent, or gpg (`gpgconf --kill scdaemon`)"
}
