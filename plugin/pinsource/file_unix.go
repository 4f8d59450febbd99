//go:build unix

package pinsource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// openPlain opens the file at path, follows no link, and does not wait at a pipe.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link: %w", path, errNotPrivate)
	}
	return f, err
}

// checkOwn accepts a file of ours that nobody else can read or write.
func checkOwn(path string, info fs.FileInfo) error {
	if err := regular(path, info); err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return hint.With(fmt.Errorf("%s belongs to another user: %w", path, errNotPrivate), "use a file of your own")
	}
	if perm := info.Mode().Perm(); perm&0o177 != 0 {
		return hint.With(fmt.Errorf("%s has mode %04o: %w", path, perm, errNotPrivate), "chmod 600 "+path)
	}
	return nil
}

// checkCredential also accepts systemd's: a file of root's that an access control list lets us
// read, which appears as the group's right.
func checkCredential(path string, info fs.FileInfo) error {
	if err := regular(path, info); err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return fmt.Errorf("%s belongs to another user: %w", path, errNotPrivate)
	}
	if perm := info.Mode().Perm(); perm&0o137 != 0 {
		return fmt.Errorf("%s has mode %04o: %w", path, perm, errNotPrivate)
	}
	return nil
}

func inode(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("inode %d on %d", st.Ino, st.Dev)
}
