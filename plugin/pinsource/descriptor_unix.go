//go:build unix

package pinsource

import (
	"errors"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

var errNotHandedOver = errors.New("it is not open")

// CheckDescriptor reports whether the process that started this one opened fd for it.
// What Go opens is closed on exec, which nothing handed over is. C libraries open
// files without that mark: ask before one is loaded, or a token's own file
// may be taken for a PIN.
func CheckDescriptor(fd int) error {
	if fd == 1 || fd == 2 {
		return errors.New("it is for output")
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return errNotHandedOver
	}
	if term.IsTerminal(fd) {
		return errors.New("it is a terminal, which shows what is typed; where nothing is named the PIN is asked for")
	}
	return nil
}
