//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// SyncDir brings to the disk what was renamed in dir.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some file systems cannot
	}
	return errors.Join(err, d.Close())
}
