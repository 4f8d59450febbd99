package flow

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
		return nil, fmt.Errorf("lock the enrolment %q: %w", name, err)
	}
	return func() { _ = lock.Unlock() }, nil
}
