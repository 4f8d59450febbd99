//go:build cgo

package pkcs11

import (
	"context"
	"fmt"
	"sync"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// token is one opening of a device.
type token struct {
	hsm.Unsupported
	*device
	once sync.Once
}

var _ hsm.Token = (*token)(nil)

// Info implements [hsm.Token].
func (t *token) Info(ctx context.Context) (hsm.TokenInfo, error) { return t.describe(ctx) }

// AllSlots implements [hsm.Administration]: there are no empty places.
func (t *token) AllSlots(ctx context.Context) ([]hsm.Slot, error) { return t.Slots(ctx, nil) }

// Close implements [hsm.Token].
func (t *token) Close() (err error) {
	t.once.Do(func() {
		if t.use(-1) == 0 {
			err = t.release()
		}
	})
	return err
}

// Lock implements [hsm.Token].
func (t *token) Lock() error { return t.lockOut() }

// Unlocked implements [hsm.Token]. While the token is busy it tells what was
// last known.
func (t *token) Unlocked() bool {
	select {
	case t.gate <- struct{}{}:
		defer t.gate.leave()
	default:
		return t.unlocked.Load()
	}
	switch {
	case t.closed:
		return false
	case t.info.PIN.NotNeeded:
		return true
	case !t.unlocked.Load() || !t.open:
		return false
	}
	s, err := t.module.ctx.GetSessionInfo(t.sh)
	if err != nil {
		t.drop()
		return false
	}
	return s.State == p11.CKS_RO_USER_FUNCTIONS || s.State == p11.CKS_RW_USER_FUNCTIONS
}

// Unlock implements [hsm.Token].
func (t *token) Unlock(ctx context.Context, p hsm.Prompter) error {
	return t.unlock(ctx, p, nil)
}

// unlock logs in if need be, asking p. A PIN typed for it is cloned into keep
// if that is not nil; the caller zeroes it.
func (d *device) unlock(ctx context.Context, p hsm.Prompter, keep **hsm.Secret) error {
	if err := d.asking.enter(ctx); err != nil {
		return err
	}
	defer d.asking.leave()
	ready := false
	err := d.with(ctx, func(p11.SessionHandle) error {
		ready = d.unlocked.Load() || d.info.PIN.NotNeeded
		return nil
	})
	if err != nil || ready {
		return err
	}
	var asked hsm.TokenInfo
	return hsm.AskPIN(ctx, p, hsm.UserPIN, d.states(ctx, &asked), func(pin *hsm.Secret) error {
		err := d.with(ctx, func(sh p11.SessionHandle) error { return d.login(ctx, sh, p11.CKU_USER, &asked.PIN, pin) })
		if err == nil && keep != nil && pin != nil {
			*keep = pin.Clone()
		}
		return err
	})
}

// login presents the PIN once, if it has as many tries as when it was asked for; a
// nil asked is one that was right a moment ago. A PIN pad's user may take a minute:
// other processes are not kept waiting for that.
func (d *device) login(ctx context.Context, sh p11.SessionHandle, user uint, asked *hsm.PINState, pin *hsm.Secret) error {
	present := func() error {
		if asked != nil && pin != nil {
			if err := d.unspent(hsm.UserPIN, *asked); err != nil {
				return err
			}
		}
		return d.module.lib.login(d.module.ctx, sh, user, pin)
	}
	var err error
	if pin == nil {
		err = present()
	} else {
		err = d.module.lock.exclusive(ctx, present)
	}
	switch {
	case err == nil, is(err, p11.CKR_USER_ALREADY_LOGGED_IN):
		if user == p11.CKU_USER {
			d.unlocked.Store(true)
		}
		return nil
	case is(err, p11.CKR_PIN_INCORRECT):
		return &hsm.PINError{Kind: hsm.UserPIN, Retries: d.retries(ctx)}
	case is(err, p11.CKR_PIN_LOCKED) && tpmModule(d.module.real):
		return hint.With(fmt.Errorf("log in: %w (%w)", hsm.ErrPINLocked, err), "the TPM refuses all PINs after too many wrong ones; that ends by itself after a while, or with `tpm2_dictionarylockout --clear-lockout`")
	}
	return fault("log in", err)
}

// unspent tells whether the PIN of that kind has as many tries left as in the state
// asked, see [hsm.CheckTries]. Gate and lock are held.
func (d *device) unspent(kind hsm.PINKind, asked hsm.PINState) error {
	t, err := d.module.ctx.GetTokenInfo(d.slot)
	if err != nil {
		return err
	}
	if kind == hsm.SOPIN {
		return hsm.CheckTries(asked, soPINState(t))
	}
	return hsm.CheckTries(asked, pinState(t))
}

// retries tells how many tries are left after a refusal, -1 unknown.
func (d *device) retries(ctx context.Context) int {
	if err := d.locate(ctx); err != nil {
		return -1
	}
	return d.info.PIN.Retries
}
