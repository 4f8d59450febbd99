// Package filelock keeps processes apart by locks of files. The system frees a lock with
// its holder, whatever becomes of that. It knows neither folders nor what is done under a
// lock. A file system that keeps no locks is an error with a next step: who takes a lock
// decides whether to go on without.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// ErrNoLocks says that the file system refuses to lock files, as some network file systems do.
var ErrNoLocks = errors.New("the file system does not support file locks")

// Lock is a lock file. Make it with [New].
type Lock struct{ file *flock.Flock }

// New returns the lock of the file at path, which is made with mode 0600 where it is missing. A pipe there keeps nobody.
func New(path string) Lock {
	return Lock{flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NONBLOCK))}
}

// Path is the file's.
func (l Lock) Path() string { return l.file.Path() }

// Lock waits for the lock. Errors of this and the next: [ErrNoLocks].
func (l Lock) Lock() error { return Explain(l.file.Lock(), l.Path()) }

// TryLock tells whether it has got the lock.
func (l Lock) TryLock() (bool, error) {
	ok, err := l.file.TryLock()
	return ok, Explain(err, l.Path())
}

// TryLockContext tries each pause until ctx ends, with whose error it returns then.
func (l Lock) TryLockContext(ctx context.Context, pause time.Duration) (bool, error) {
	ok, err := l.file.TryLockContext(ctx, pause)
	return ok, Explain(err, l.Path())
}

// TryRLockContext is [Lock.TryLockContext] for a lock that several may have, beside no other.
func (l Lock) TryRLockContext(ctx context.Context, pause time.Duration) (bool, error) {
	ok, err := l.file.TryRLockContext(ctx, pause)
	return ok, Explain(err, l.Path())
}

// Unlock frees the lock.
func (l Lock) Unlock() error { return l.file.Unlock() }

// Close frees the lock and closes the file, which stays.
func (l Lock) Close() error { return l.file.Close() }

// Explain puts [ErrNoLocks] into an error of locking the file at path, if that is what it says.
func Explain(err error, path string) error {
	if err == nil || !errors.Is(err, syscall.ENOLCK) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return hint.Withf(fmt.Errorf("lock %s: %w: %w", path, ErrNoLocks, err),
		"mount the file system of %s with file locks (an NFS client needs rpc.statd, or the mount option local_lock=flock), "+
			"or set KUBEHSM_HOME to a folder on a local disk", shell.Quote(filepath.Dir(path)))
}
