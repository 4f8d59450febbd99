//go:build unix

package tui

import (
	"errors"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

const maxStderr = 64 << 10

// keepStderr takes standard error off the terminal while the UI draws on it: some token libraries
// (tpm2-pkcs11 is one) write their errors there. restore brings it back and can show what was
// written. A crash still reaches the terminal.
func keepStderr() (restore func(show bool) error, err error) {
	kept, err := os.CreateTemp("", "kubehsm-stderr-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(kept.Name()); err != nil { // the descriptor is enough
		return nil, errors.Join(err, kept.Close())
	}
	fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	terminal := os.NewFile(uintptr(fd), "stderr")
	if err := errors.Join(debug.SetCrashOutput(terminal, debug.CrashOptions{}), redirect(int(kept.Fd()), 2)); err != nil {
		return nil, errors.Join(err, terminal.Close(), kept.Close())
	}
	return func(show bool) error {
		errs := []error{redirect(int(terminal.Fd()), 2), debug.SetCrashOutput(nil, debug.CrashOptions{})}
		if show {
			_, err := io.Copy(terminal, io.NewSectionReader(kept, 0, maxStderr))
			errs = append(errs, err)
		}
		return errors.Join(append(errs, terminal.Close(), kept.Close())...)
	}, nil
}
