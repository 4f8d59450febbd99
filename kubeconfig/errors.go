package kubeconfig

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Errors of this package, wrapped with the file or the entry they speak of.
var (
	// ErrNoContext: the context (or a current one) does not exist.
	ErrNoContext = errors.New("no such context")
	// ErrNoCluster: the cluster does not exist.
	ErrNoCluster = errors.New("no such cluster in the kubeconfig")
	// ErrNotOurs: an entry of that name exists and was not made by kubehsm.
	ErrNotOurs = errors.New("an entry of this name exists and is not kubehsm's")
	// ErrInvalid: the wanted entry is not usable.
	ErrInvalid = errors.New("unusable kubeconfig entry")
	// ErrParse: a kubeconfig file cannot be read as one.
	ErrParse = errors.New("not a readable kubeconfig")
	// ErrUnsupported: the file's shape cannot be edited without touching more
	// than the entry.
	ErrUnsupported = errors.New("this kubeconfig cannot be edited safely")
	// ErrChanged: a file changed between Plan and Apply; plan again.
	ErrChanged = errors.New("the kubeconfig has changed meanwhile")
	// ErrReadOnly: the file or its folder may not be written.
	ErrReadOnly = errors.New("the kubeconfig is read-only")
	// ErrLocked: another program holds the file's lock, see [LockError].
	ErrLocked = errors.New("the kubeconfig is locked")
	// ErrConflict: a file that an undo would restore was changed by others since.
	ErrConflict = errors.New("changed by others since")
	// ErrNoBackup: no change of the files can be undone.
	ErrNoBackup = errors.New("there is no change to undo")
)

// LockError says that client-go's lock on a kubeconfig could not be had. It
// wraps [ErrLocked].
type LockError struct {
	Path string        // path of the lock file
	Age  time.Duration // since the lock was made; not negative
}

// Stale reports whether the lock is older than [StaleLock].
func (e *LockError) Stale() bool { return e.Age >= StaleLock }

func (e *LockError) Error() string {
	if e.Stale() {
		return fmt.Sprintf("%v: %s is %s old, its program has probably died", ErrLocked, e.Path, e.Age.Round(time.Second))
	}
	return fmt.Sprintf("%v: %s exists", ErrLocked, e.Path)
}

// Unwrap returns [ErrLocked].
func (e *LockError) Unwrap() error { return ErrLocked }

// Hint is the next step.
func (e *LockError) Hint() string {
	if e.Stale() {
		return "if no kubectl or other program is changing the kubeconfig, remove the lock: rm " + shell.Quote(e.Path)
	}
	return "another program is changing the kubeconfig: try again in a moment"
}
