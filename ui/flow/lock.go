package flow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// lockName keeps two enrolments of one name apart. The lock dies with the
// process.
func (e *Env) lockName(ctx context.Context, name string) (release func(), err error) {
	if err := enrollment.ValidName(name); err != nil { // it becomes a file's
		return nil, err
	}
	if err := e.Dirs.Prepare(); err != nil {
		return nil, err
	}
	if err := home.MakeDir(e.journalDir()); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(e.journalDir(), name+".lock"), flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = lock.TryLockContext(wait, 50*time.Millisecond)
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), lock.Close())
	case errors.Is(err, context.DeadlineExceeded): // not wrapped: nothing timed out for the person
		return nil, hsm.WithHint(errors.Join(fmt.Errorf("the enrolment %q is being worked on by another kubehsm", name), lock.Close()),
			"let that one end, or stop it")
	case err != nil:
		return nil, e.unwritable(fmt.Errorf("lock the enrolment %q: %w", name, err))
	}
	return func() { _ = lock.Unlock() }, nil
}

// unwritable says what to do where the state folder takes nothing; any other err
// is as it was.
func (e *Env) unwritable(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return hsm.Hintf(err, "make %s writable, or name another folder with %s", e.Dirs.State, home.EnvHome)
	}
	return err
}
