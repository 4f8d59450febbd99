package flow

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// lockName keeps two enrolments of one name apart. The lock dies with the
// process.
func (e *Env) lockName(ctx context.Context, name string) (release func(), err error) {
	if err := e.Dirs.Prepare(); err != nil {
		return nil, err
	}
	if err := home.MakeDir(e.journalDir()); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(e.journalDir(), name+".lock"), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if ok, err := lock.TryLockContext(ctx, 50*time.Millisecond); !ok {
		return nil, hsm.WithHint(fmt.Errorf("the enrolment %q is being worked on by another kubehsm: %w", name, err),
			"let that one end, or stop it")
	}
	return func() { _ = lock.Unlock() }, nil
}
