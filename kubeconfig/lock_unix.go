//go:build unix

package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// lockMark is the content of the locks of this computer.
func lockMark() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?" // also the mark of others here: none can tell
	}
	return markPrefix + host + "\n"
}

// mark makes the new lock file f known as ours. Without the mark, on a full disk
// say, it is a lock like client-go's.
func mark(f *os.File) {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_, _ = f.WriteString(lockMark())
	}
}

// takeOver makes the lock at name ours if its holder has died: one of ours whose
// system lock is free or, if the lock has settled as a stale one, any other that
// is ours to change. It returns nil for a lock that is held, or that has gone.
// Whoever takes it over has the system's lock first, so that only one does; the
// file is there all the time.
func takeOver(name string, info fs.FileInfo, settled bool) (*os.File, error) {
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || st.Nlink != 1 {
		return nil, nil
	}
	if settled && info.Mode().Perm()&0o600 != 0o600 { // client-go's has no mode at all
		if err := os.Chmod(name, 0o600); errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("lock the kubeconfig: %w", err)
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|nonBlock, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the kubeconfig: %w", err)
	}
	if !left(f, settled) || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil ||
		!left(f, settled) || !(heldLock{name, f}).isAt(name) {
		return nil, f.Close()
	}
	// It is ours as it is; where the disk is full it keeps its old content.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(lockMark()), 0)
	}
	return f, nil
}

// left reports whether the lock f may have been left behind.
func left(f *os.File, settled bool) bool {
	text := make([]byte, 300)
	n, err := f.ReadAt(text, 0)
	info, serr := f.Stat()
	switch {
	case !errors.Is(err, io.EOF) || serr != nil: // longer than any mark, or not to be read
		return false
	case string(text[:n]) == lockMark():
		return true
	}
	stale := settled && time.Since(info.ModTime()) >= StaleLock
	return stale && (n == 0 || strings.HasPrefix(string(text[:n]), markPrefix))
}

// removeHeld ends a lock. The file goes first: whoever waits for it must not find
// it free and there.
func removeHeld(name string, f *os.File) error { return errors.Join(os.Remove(name), f.Close()) }
