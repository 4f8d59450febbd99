//go:build unix

package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// lockMark is the content of the locks of this computer.
func lockMark() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?" // other processes here use the same mark
	}
	return markPrefix + host + "\n"
}

// makeLock makes the lock file name. The file is marked and locked before it gets that
// name, so that a process that is killed leaves no lock without a mark. On a full disk,
// without hard links or where the file system keeps no locks, the lock is one like
// client-go's: the file alone excludes others.
func makeLock(name string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(name), tempPrefix(strings.TrimSuffix(name, lockName(""))))
	if err != nil {
		return newLock(name)
	}
	if err = flock(f); err == nil {
		_, err = f.WriteString(lockMark())
	}
	if err == nil {
		err = os.Link(f.Name(), name)
	}
	_ = os.Remove(f.Name()) // the next holder of the lock removes a file that is left
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrExist):
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return newLock(name)
}

// flock takes the system's lock of a file, without waiting. Errors: [filelock.ErrNoLocks].
func flock(f *os.File) error {
	return filelock.Explain(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), f.Name())
}

// takeOver takes over the lock at name if its holder has died. That is a lock with this
// computer's mark whose flock is free or, if settled, any stale lock that this user may
// change. f is nil if the lock was not taken over; held reports that a living process
// has the flock. takeOver gets the flock first, so that only one process takes the lock
// over, and the file is there all the time.
func takeOver(name string, info fs.FileInfo, settled bool) (f *os.File, held bool, err error) {
	if !info.Mode().IsRegular() {
		return nil, false, nil
	}
	if settled && lone(info) && info.Mode().Perm()&0o600 != 0o600 { // client-go makes its locks with mode 0
		err = os.Chmod(name, 0o600)
	}
	if err == nil {
		f, err = os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("lock the kubeconfig: %w", err)
	case !left(f, settled):
		return nil, false, f.Close()
	}
	switch err := flock(f); {
	case settled && errors.Is(err, filelock.ErrNoLocks): // without flock no check whether the holder lives
		return nil, true, errors.Join(hint.Withf(fmt.Errorf("lock the kubeconfig: %w", err),
			"if no kubehsm is changing the kubeconfig, remove the lock: rm %s", shell.Quote(name)), f.Close())
	case err != nil:
		return nil, true, f.Close()
	case !left(f, settled), !(heldLock{name, f}).isAt(name):
		return nil, false, f.Close()
	}
	// The lock is taken over already; on a full disk it keeps no mark.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(lockMark()), 0)
	}
	return f, false, nil
}

// left reports whether the lock f may have been left behind.
func left(f *os.File, settled bool) bool {
	text := make([]byte, 300)
	n, err := f.ReadAt(text, 0)
	info, serr := f.Stat()
	switch {
	case !errors.Is(err, io.EOF) || serr != nil: // the text is longer than any mark, or cannot be read
		return false
	case string(text[:n]) == lockMark():
		return true
	}
	if !settled || time.Since(info.ModTime()) < StaleLock {
		return false
	}
	return n == 0 && lone(info) || strings.HasPrefix(string(text[:n]), markPrefix)
}

// removeHeld ends a lock. The file goes first: a process that waits must not find a
// lock that is free and still there.
func removeHeld(name string, f *os.File) error { return errors.Join(os.Remove(name), f.Close()) }

// lone reports whether the file has no other name: a file with two may be no lock.
func lone(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}
