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
)

// lockMark is the content of the locks of this computer.
func lockMark() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?" // also the mark of others here: none can tell
	}
	return markPrefix + host + "\n"
}

// makeLock makes the lock file name, marked and locked before it has that name:
// whoever is killed leaves none without its mark. Where that cannot be, on a full
// disk or without hard links, it is a lock like client-go's.
func makeLock(name string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(name), tempPrefix(strings.TrimSuffix(name, lockName(""))))
	if err != nil {
		return newLock(name)
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		_, err = f.WriteString(lockMark())
	}
	if err == nil {
		err = os.Link(f.Name(), name)
	}
	_ = os.Remove(f.Name()) // whoever holds the lock sweeps
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

// takeOver makes the lock at name ours if its holder has died: one of ours whose
// system lock is free or, if the lock has settled as a stale one, any other that
// is ours to change. There is no file for a lock that stays somebody's, and held
// if that process lives, nor for one that has gone. Whoever takes it over has the
// system's lock first, so that only one does; the file is there all the time.
func takeOver(name string, info fs.FileInfo, settled bool) (f *os.File, held bool, err error) {
	if !info.Mode().IsRegular() {
		return nil, false, nil
	}
	if settled && lone(info) && info.Mode().Perm()&0o600 != 0o600 { // client-go's has no mode at all
		err = os.Chmod(name, 0o600)
	}
	if err == nil {
		f, err = os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|nonBlock, 0)
	}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("lock the kubeconfig: %w", err)
	case !left(f, settled):
		return nil, false, f.Close()
	case syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil:
		return nil, true, f.Close()
	case !left(f, settled), !(heldLock{name, f}).isAt(name):
		return nil, false, f.Close()
	}
	// It is ours as it is; where the disk is full it keeps no mark.
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
	case !errors.Is(err, io.EOF) || serr != nil: // longer than any mark, or not to be read
		return false
	case string(text[:n]) == lockMark():
		return true
	}
	if !settled || time.Since(info.ModTime()) < StaleLock {
		return false
	}
	return n == 0 && lone(info) || strings.HasPrefix(string(text[:n]), markPrefix)
}

// removeHeld ends a lock. The file goes first: whoever waits for it must not find
// it free and there.
func removeHeld(name string, f *os.File) error { return errors.Join(os.Remove(name), f.Close()) }

// lone reports whether the file has no other name: one that has may be no lock.
func lone(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}
