//go:build !unix

package kubeconfig

import (
	"io/fs"
	"os"
)

// makeLock makes the lock file name. It has no mark, as no system lock goes with it.
func makeLock(name string) (*os.File, error) { return newLock(name) }

// takeOver: whose a lock is cannot be told here.
func takeOver(string, fs.FileInfo, bool) (f *os.File, held bool, err error) { return nil, false, nil }

// removeHeld ends a lock. A file that is open cannot be removed here.
func removeHeld(name string, f *os.File) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(name)
}
