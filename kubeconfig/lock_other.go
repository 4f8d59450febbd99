//go:build !unix

package kubeconfig

import (
	"io/fs"
	"os"
)

// makeLock makes the lock file name. It has no mark, as no system lock goes with it.
func makeLock(name string) (*os.File, error) { return newLock(name) }

// takeOver takes no lock over: the holder of a lock cannot be told on this system.
func takeOver(string, fs.FileInfo, bool) (f *os.File, held bool, err error) { return nil, false, nil }

// removeHeld ends a lock. An open file cannot be removed on this system.
func removeHeld(name string, f *os.File) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(name)
}
