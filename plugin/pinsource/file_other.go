//go:build !unix

package pinsource

import (
	"fmt"
	"io/fs"
	"os"
)

// openPlain opens the file at path and follows no link.
func openPlain(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		_ = f.Close() // only opened
		return nil, fmt.Errorf("%s was replaced while it was opened: %w", path, errNotPrivate)
	}
	return f, nil
}

// checkOwn relies on the access control lists that the user's profile folder hands down: there are
// no mode bits.
func checkOwn(path string, info fs.FileInfo) error { return regular(path, info) }

func checkCredential(path string, info fs.FileInfo) error { return regular(path, info) }

func inode(fs.FileInfo) string { return "" }
