//go:build linux

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Watch looks for secrets in the arguments and the environment of the lab's
// processes while they run.
type Watch struct {
	lab     *Lab
	secrets []string
	done    chan struct{}
	wg      sync.WaitGroup

	mu    sync.Mutex
	seen  map[int]bool
	found map[string]bool
	err   error
}

// WatchProcesses begins to look, with a pause between two looks; 0 misses least.
func (l *Lab) WatchProcesses(pause time.Duration, secrets ...string) *Watch {
	w := &Watch{lab: l, secrets: secrets, done: make(chan struct{}), seen: map[int]bool{}, found: map[string]bool{}}
	w.wg.Go(func() {
		for {
			w.look()
			select {
			case <-w.done:
				w.look()
				return
			case <-time.After(pause):
			}
		}
	})
	return w
}

func (w *Watch) look() {
	all, err := w.lab.Processes()
	for pid := range all {
		w.sample(pid)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

// sample reads what /proc tells of a process. The agent keeps even its user from
// reading its environment: then there is nothing to be found by anybody.
func (w *Watch) sample(pid int) {
	for _, file := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return // the process has ended
		}
		if holds(b, w.secrets) {
			w.mu.Lock()
			w.found[fmt.Sprintf("the %s of process %d", file, pid)] = true
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[pid] = true
}

// Stop looks once more and ends the watch. It returns the processes that were
// looked at, and where a secret was.
func (w *Watch) Stop() (seen map[int]bool, found []string, err error) {
	close(w.done)
	w.wg.Wait()
	for where := range w.found {
		found = append(found, where)
	}
	return w.seen, found, w.err
}

// FilesWith reads every file below root, and returns those that hold one of the
// secrets and how many there are in all.
func FilesWith(root string, secrets ...string) (found []string, files int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an agent that lives removes its own
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files++
		if holds(b, secrets) {
			found = append(found, path)
		}
		return err
	})
	return found, files, err
}

func holds(b []byte, secrets []string) bool {
	for _, s := range secrets {
		if bytes.Contains(b, []byte(s)) {
			return true
		}
	}
	return false
}

// KeepSecret fails t if one of the secrets is, until t ends, in the arguments or
// environment of a process of the lab's or, at the end, in a file of the lab's.
func (l *Lab) KeepSecret(t testing.TB, secrets ...string) {
	t.Helper()
	w := l.WatchProcesses(100*time.Millisecond, secrets...)
	t.Cleanup(func() {
		seen, places, err := w.Stop()
		found, files, ferr := FilesWith(l.Dir, secrets...)
		if err = errors.Join(err, ferr); err != nil {
			t.Error(err)
		}
		if len(seen) == 0 || files == 0 {
			t.Errorf("%d processes and %d files were looked at", len(seen), files)
		}
		for _, place := range append(places, found...) {
			t.Errorf("a secret is in %s", place)
		}
	})
}
