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

	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

const (
	// StaleLock is the age from which a lock is taken for left behind: client-go
	// holds it for milliseconds.
	StaleLock = time.Minute
	// LockWait is how long Apply waits for a lock if ctx ends no sooner.
	LockWait = 10 * time.Second

	lockPoll = 20 * time.Millisecond
)

// lockName is client-go's (tools/clientcmd/loader.go).
func lockName(path string) string { return path + ".lock" }

// lockAll takes client-go's locks of the files, in sorted order as it does, and
// returns what releases them. A link's target is locked too, as another program
// may know the file by that name.
func lockAll(ctx context.Context, files []string) (release func() error, err error) {
	var names []string
	for _, f := range files {
		names = append(names, lockName(f))
		if target, err := targetOf(f); err == nil && target != f {
			names = append(names, lockName(target))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var held []string
	release = func() error {
		var errs []error
		for _, name := range held {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("release the kubeconfig's lock: %w", err))
			}
		}
		return errors.Join(errs...)
	}
	var made []os.FileInfo
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && slices.ContainsFunc(made, func(m os.FileInfo) bool { return os.SameFile(m, info) }) {
			continue // two spellings of one lock
		}
		info, err := lock(ctx, name)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held, made = append(held, name), append(made, info)
	}
	return release, nil
}

// lock waits for the lock file name to be ours.
func lock(ctx context.Context, name string) (os.FileInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			info, err := f.Stat()
			return info, errors.Join(err, f.Close())
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, denied(fmt.Errorf("lock the kubeconfig: %w", err), filepath.Dir(name))
		}
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // released just now
		}
		if err != nil {
			return nil, fmt.Errorf("lock the kubeconfig: %w", err)
		}
		busy := &LockError{Path: name, Age: max(0, time.Since(info.ModTime()))}
		if busy.Stale() {
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
		return problem.Hintf(fmt.Errorf("%w: %w", ErrReadOnly, err), "make %s writable, or name another file with --kubeconfig", quoteArg(what))
	}
	return err
}
