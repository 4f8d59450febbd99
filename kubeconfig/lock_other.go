//go:build !unix

package kubeconfig

import (
	"io/fs"
	"os"
)

// mark: there are no system locks that outlast nothing but the process here.
func mark(*os.File) {}

// takeOver: whose a lock is cannot be told here.
func takeOver(string, fs.FileInfo, bool) (*os.File, error) { return nil, nil }

// removeHeld ends a lock. A file that is open cannot be removed here.
func removeHeld(name string, f *os.File) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(name)
}
