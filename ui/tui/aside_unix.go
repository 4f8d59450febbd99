//go:build unix

package tui

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// setAside sends what is written to standard error into a file while the UI is
// drawn: vendors' libraries print there from C, across the screen. Where
// standard error is no terminal, nothing is done.
func setAside(where func() (string, error)) (restore func() error, err error) {
	nothing := func() error { return nil }
	if where == nil || !term.IsTerminal(unix.Stderr) {
		return nothing, nil
	}
	path, err := where()
	if err != nil {
		return nothing, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nothing, fmt.Errorf("set standard error aside: %w", err)
	}
	defer file.Close()
	saved, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nothing, fmt.Errorf("set standard error aside: %w", err)
	}
	if err := dup2(int(file.Fd()), unix.Stderr); err != nil {
		return nothing, errors.Join(fmt.Errorf("set standard error aside: %w", err), unix.Close(saved))
	}
	return func() error { return errors.Join(dup2(saved, unix.Stderr), unix.Close(saved)) }, nil
}
