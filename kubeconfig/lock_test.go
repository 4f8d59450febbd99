//go:build unix

package kubeconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
)

func init() { lockSettle = 100 * time.Millisecond }

// abandon leaves a lock as its holder leaves it who dies: ours with its mark,
// or client-go's, which is empty and has no mode.
func abandon(t *testing.T, name, content string, mode os.FileMode, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	must.OK(t, errors.Join(os.WriteFile(name, []byte(content), 0o600), os.Chmod(name, mode),
		os.Chtimes(name, then, then)))
}

// TestAbandonedLocks: many find the same lock of a dead process. It is taken over
// by one at a time, and gone in the end.
func TestAbandonedLocks(t *testing.T) {
	for what, lock := range map[string]struct {
		content string
		mode    os.FileMode
		age     time.Duration
	}{
		"ours, just now":            {lockMark(), 0o600, 0},
		"ours, of another computer": {markPrefix + "another\n", 0o600, time.Hour},
		"client-go's":               {"", 0, time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(folder(t), "config")
			abandon(t, lockName(path), lock.content, lock.mode, lock.age)
			var holders atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					release, err := lockAll(context.Background(), []string{path})
					if err != nil {
						t.Error(err)
						return
					}
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d hold it", n)
					}
					if b, err := os.ReadFile(lockName(path)); err != nil || string(b) != lockMark() {
						t.Errorf("the lock says %q, %v", b, err)
					}
					holders.Add(-1)
					if err := release(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if _, err := os.Lstat(lockName(path)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// TestLocksThatAreHeld: a lock is not taken from a living process, however old it
// looks, nor what may be no lock.
func TestLocksThatAreHeld(t *testing.T) {
	dir := folder(t)
	old := time.Now().Add(-time.Hour)
	path := func(name string) string { return filepath.Join(dir, name) }
	held, err := lockAll(t.Context(), []string{path("living")})
	must.OK(t, err)
	abandon(t, lockName(path("fresh")), markPrefix+"another\n", 0o600, 0)
	abandon(t, lockName(path("unknown")), "1234\n", 0o600, time.Hour)
	abandon(t, path("mine"), "", 0o600, time.Hour)
	must.OK(t, errors.Join(os.Chtimes(lockName(path("living")), old, old), os.Symlink(path("mine"), lockName(path("link"))),
		os.Link(path("mine"), lockName(path("hard link"))), os.Mkdir(lockName(path("folder")), 0o700),
		syscall.Mkfifo(lockName(path("pipe")), 0o600), os.Chtimes(lockName(path("pipe")), old, old)))
	var wg sync.WaitGroup
	for _, name := range []string{"living", "fresh", "unknown", "link", "hard link", "folder", "pipe"} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), lockSettle+10*lockPoll)
			defer cancel()
			if _, err := lockAll(ctx, []string{path(name)}); !errors.Is(err, ErrLocked) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(path("mine")); err != nil || len(b) > 0 {
		t.Errorf("a file was written through a link: %q, %v", b, err)
	}
	// One that the user has removed is not removed again where it is another's now.
	must.OK(t, os.Remove(lockName(path("living"))))
	abandon(t, lockName(path("living")), "", 0, 0)
	if err := held(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(lockName(path("living"))); err != nil {
		t.Error("another's lock was removed")
	}
}
