package host

import (
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
)

// TestUnlockHearsOfALock: who unlocks while somebody locks is told so, and not
// that he has interrupted it.
func TestUnlockHearsOfALock(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.token.Before(func(ctx context.Context, op hsmtest.Op) error {
		if op != hsmtest.OpSlots {
			return nil
		}
		check(t, only(r.agent.locks.all(message.LockAsked, nil)))
		<-ctx.Done()
		return ctx.Err()
	})
	if err := r.dial().Unlock(t.Context(), "prod", hsmtest.NewScript(t)); !errors.Is(err, message.ErrLocked) {
		t.Error(err)
	}
}
