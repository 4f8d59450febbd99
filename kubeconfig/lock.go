package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

const (
	// StaleLock is the age at which a lock counts as left behind: client-go holds
	// one for milliseconds.
	StaleLock = time.Minute
	// LockWait is how long Apply waits for a lock if ctx ends no sooner.
	LockWait = 10 * time.Second

	lockPoll = 20 * time.Millisecond
)

// lockSettle is how long a lock that looks stale is left to its holder, who may
// have been suspended together with the computer. It is a variable for the tests alone.
var lockSettle = time.Second

// markPrefix begins the content of kubehsm's locks; client-go's locks are empty. The
// holder also has the system's lock of the file (flock), which ends with its process:
// a marked file without a flock was left behind. The computer's name follows the
// prefix, as not every network file system shows a flock to other computers.
const markPrefix = "kubehsm "

// lockName returns the name of client-go's lock for a file (tools/clientcmd/loader.go).
func lockName(path string) string { return path + ".lock" }

// lockNames are the locks of a file. A link's target is locked too, as another program
// may know the file by that name.
func lockNames(file string) []string {
	names := []string{lockName(file)}
	if target, err := targetOf(file); err == nil && target != file {
		names = append(names, lockName(target))
	}
	return names
}

// lockAll takes client-go's locks of the files, in sorted order like client-go, and
// returns a function that releases them.
func lockAll(ctx context.Context, files []string) (release func() error, err error) {
	var names []string
	for _, f := range files {
		names = append(names, lockNames(f)...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var held []heldLock
	release = func() error {
		var errs []error
		for _, h := range held {
			errs = append(errs, h.release())
		}
		return errors.Join(errs...)
	}
	for _, name := range names {
		if slices.ContainsFunc(held, func(h heldLock) bool { return h.isAt(name) }) {
			continue // two spellings of one lock
		}
		f, err := lock(ctx, name)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, heldLock{name, f})
	}
	return release, nil
}

// heldLock is a lock file that this process holds.
type heldLock struct {
	name string
	file *os.File
}

// isAt reports whether the file at name is still this lock.
func (h heldLock) isAt(name string) bool {
	there, err := os.Lstat(name)
	if err != nil {
		return false
	}
	ours, err := h.file.Stat()
	return err == nil && os.SameFile(ours, there)
}

// release removes the lock, unless another lock has taken its place.
func (h heldLock) release() error {
	var err error
	if h.isAt(h.name) {
		err = removeHeld(h.name, h.file)
	} else {
		err = h.file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the kubeconfig's lock: %w", err)
	}
	return nil
}

// lock takes the lock file name, and waits while another process holds it.
func lock(ctx context.Context, name string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	begun := time.Now()
	for {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			f, err := makeLock(name)
			if errors.Is(err, fs.ErrExist) {
				continue // another process was quicker
			}
			if err != nil {
				return nil, denied(fmt.Errorf("lock the kubeconfig: %w", err), filepath.Dir(name))
			}
			return f, nil
		}
		if err != nil {
			return nil, fmt.Errorf("lock the kubeconfig: %w", err)
		}
		busy := &LockError{Path: name, Age: max(0, time.Since(info.ModTime()))}
		settled := busy.Stale() && time.Since(begun) >= lockSettle
		f, held, err := takeOver(name, info, settled)
		if f != nil || err != nil {
			return f, err
		}
		if settled && !held && unchanged(name, info) { // the lock will stay
			return nil, busy
		}
		if err := pause(ctx, lockPoll); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil, err
			}
			return nil, busy
		}
	}
}

// newLock makes the lock file name, without a mark. It fails if there is one.
func newLock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// unchanged reports whether the file at name still is the one that info describes:
// no process is taking the lock over.
func unchanged(name string, info os.FileInfo) bool {
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(now, info) && now.ModTime().Equal(info.ModTime())
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// denied adds a next step where the system refuses to write.
func denied(err error, what string) error {
	if errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err) {
		return hint.Withf(fmt.Errorf("%w: %w", ErrReadOnly, err), "make %s writable, or name another file with --kubeconfig",
			shell.Quote(what))
	}
	return err
}
