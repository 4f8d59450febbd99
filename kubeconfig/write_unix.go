//go:build unix

package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// keepOwner gives f the owner and group of the file that it replaces.
func keepOwner(f *os.File, info fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	want, ok1 := info.Sys().(*syscall.Stat_t)
	have, ok2 := now.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("keep the file's owner: %w", err)
	}
	return nil
}

// isMine reports whether the file is this user's.
func isMine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// takesFiles tells why no file can be made in the folder dir.
func takesFiles(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

func isReadOnlyFS(err error) bool { return errors.Is(err, syscall.EROFS) }
