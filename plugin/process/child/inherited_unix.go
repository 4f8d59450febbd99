//go:build unix

package child

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// DropInherited closes the descriptors that this process was started with, but
// for its streams and keep. What Go opens itself is closed on exec.
func DropInherited(keep int) error {
	entries, err := os.ReadDir("/dev/fd")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a system without one is a bare container, with no shell around
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 || fd == keep {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // the folder's own is closed by now
		}
		if err := unix.Close(fd); err != nil {
			return os.NewSyscallError("close", err)
		}
	}
	return nil
}

// CloseOnExec keeps a descriptor from what this process starts.
func CloseOnExec(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	return os.NewSyscallError("fcntl", err)
}
