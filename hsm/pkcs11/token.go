//go:build cgo

package pkcs11

import (
	"context"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
)

// token is one opening of a device.
type token struct {
	hsm.Unsupported
	d    *device
	once sync.Once
}

var _ hsm.Token = (*token)(nil)

// Info implements [hsm.Token].
func (t *token) Info(ctx context.Context) (hsm.TokenInfo, error) { return t.d.describe(ctx) }

// Close implements [hsm.Token].
func (t *token) Close() (err error) {
	t.once.Do(func() {
		if t.d.users.Add(-1) == 0 {
			err = t.d.release()
		}
	})
	return err
}

// Unlock implements [hsm.Token].
func (t *token) Unlock(ctx context.Context, p hsm.Prompter) error { return unlock(ctx, t.d, p, nil) }

// Unlocked implements [hsm.Token]. While the token is busy it tells what was
// last known.
func (t *token) Unlocked() bool { return t.d.unlockedNow() }

// Lock implements [hsm.Token].
func (t *token) Lock() error { return t.d.lockOut() }

// Slots implements [hsm.Token].
func (t *token) Slots(ctx context.Context, p hsm.Prompter) ([]hsm.Slot, error) {
	_, slots, err := list(ctx, t.d, scope{})
	if err != nil || len(slots) > 0 || p == nil || t.Unlocked() {
		return slots, err
	}
	if err := t.Unlock(ctx, p); err != nil { // a token may hide public objects, too
		return nil, err
	}
	_, slots, err = list(ctx, t.d, scope{})
	return slots, err
}

// Slot implements [hsm.Token].
func (t *token) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	if len(u.ID) > 0 {
		// A certificate may be under another id than its key.
		if _, slot, err := pick(ctx, t.d, u, scope{id: u.ID}); err == nil && slot.Key != nil && slot.Certificate != nil {
			return slot, nil
		}
	}
	_, slot, err := lookup(ctx, t.d, u)
	return slot, err
}

// AllSlots implements [hsm.Administration]: there are no empty places.
func (t *token) AllSlots(ctx context.Context) ([]hsm.Slot, error) { return t.Slots(ctx, nil) }
