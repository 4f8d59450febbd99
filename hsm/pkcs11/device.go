//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// identity tells devices apart. The label counts only where there is no serial:
// some libraries change it.
type identity struct{ module, serial, model, manufacturer, label string }

func identify(m *module, t hsm.TokenInfo) identity {
	id := identity{module: m.real, serial: t.Serial, model: t.Model, manufacturer: t.Manufacturer}
	if t.Serial == "" {
		id.label = t.Label
	}
	return id
}

// device is one token with its session and login, shared by all who opened it.
type device struct {
	module *module
	id     identity
	users  atomic.Int32
	asking gate // held while the PIN is asked for
	gate   gate // held while the token works; guards what follows
	slot   uint
	info   hsm.TokenInfo
	read   time.Time // when info was read by the opening; zero once that was used, or it was read again
	seen   time.Time // when the token was last seen to be in slot
	open   bool
	sh     p11.SessionHandle
	closed bool

	unlocked atomic.Bool
}

func newDevice(f match) *device {
	d := &device{module: f.module, id: identify(f.module, f.info), info: f.info, slot: uint(f.info.SlotID), read: f.read, seen: f.read,
		asking: newGate(), gate: f.module.gate}
	if d.gate == nil {
		d.gate = newGate()
	}
	return d
}

func (d *device) use(n int32) int32 {
	d.module.uses.Add(1)
	return d.users.Add(n)
}

// with runs f alone on the token, with a session that was alive just before.
func (d *device) with(ctx context.Context, f func(sh p11.SessionHandle) error) error {
	if err := d.gate.enter(ctx); err != nil {
		return err
	}
	defer d.gate.leave()
	if err := d.ensure(ctx); err != nil {
		return err
	}
	err := f(d.sh)
	if lost(err) {
		d.drop()
	} else if is(err, p11.CKR_DEVICE_ERROR, p11.CKR_GENERAL_ERROR, p11.CKR_FUNCTION_FAILED) {
		err = d.gone(ctx, err)
	}
	return err
}

// gone tells a token that failed from one that was pulled: some libraries have
// one code for both. The gate is held.
func (d *device) gone(ctx context.Context, err error) error {
	tokens, _, scanning := d.module.scan(ctx)
	if scanning != nil || slices.ContainsFunc(tokens, func(t hsm.TokenInfo) bool { return identify(d.module, t) == d.id }) {
		return err
	}
	d.drop()
	return fmt.Errorf("%w: %w", d.removed(), err)
}

func (d *device) removed() error {
	return hint.With(fmt.Errorf("token %q: %w", d.info.Name(), hsm.ErrRemoved), "plug the token in again")
}

// reading is [device.with] for what can simply be done again on a new session.
func (d *device) reading(ctx context.Context, f func(sh p11.SessionHandle) error) error {
	locked := func(sh p11.SessionHandle) error {
		return d.module.lock.shared(ctx, func() error { return f(sh) })
	}
	err := d.with(ctx, locked)
	if lost(err) {
		err = d.with(ctx, locked)
	}
	return err
}

// writing runs f, alone among all processes, with a read/write session.
func (d *device) writing(ctx context.Context, f func(sh p11.SessionHandle) error) error {
	return d.with(ctx, func(p11.SessionHandle) error {
		defer d.module.finishing.Begin()()
		return d.module.lock.exclusive(ctx, func() (err error) {
			rw, err := d.module.ctx.OpenSession(d.slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
			if err != nil {
				return err
			}
			defer func() {
				if closing := d.module.ctx.CloseSession(rw); !lost(closing) {
					err = errors.Join(err, closing)
				}
			}()
			return f(rw)
		})
	})
}

// justSeen is how long the look at a token that its opening took is good for its
// first session, and its first login: nobody swaps tokens faster.
const justSeen = 300 * time.Millisecond

// ensure makes the session alive, on the same token as ever.
func (d *device) ensure(ctx context.Context) error {
	if d.closed {
		return errClosed
	}
	if d.open {
		state, err := d.module.ctx.GetSessionInfo(d.sh)
		if err == nil {
			d.unlocked.Store(state.State == p11.CKS_RO_USER_FUNCTIONS || state.State == p11.CKS_RW_USER_FUNCTIONS)
			return nil
		}
		d.drop()
	}
	if time.Since(d.seen) > justSeen {
		if err := d.locate(ctx); err != nil {
			return err
		}
	}
	d.seen = time.Time{} // whatever comes next looks again
	var state p11.SessionInfo
	err := d.module.lock.shared(ctx, func() (err error) {
		d.sh, err = d.module.ctx.OpenSession(d.slot, p11.CKF_SERIAL_SESSION)
		if err == nil {
			d.open = true
			state, err = d.module.ctx.GetSessionInfo(d.sh)
		}
		return err
	})
	if err != nil {
		d.drop()
		return fault("open a session", err)
	}
	// Another part of the program may have logged in already.
	d.unlocked.Store(state.State == p11.CKS_RO_USER_FUNCTIONS || state.State == p11.CKS_RW_USER_FUNCTIONS)
	return nil
}

// drop forgets a session that is gone, and the login with it.
func (d *device) drop() {
	if d.open {
		_ = d.module.ctx.CloseSession(d.sh) // it is gone, or of no more use
	}
	d.open = false
	d.unlocked.Store(false)
}

// locate finds the slot the token is in now and reads its description.
func (d *device) locate(ctx context.Context) error {
	var info hsm.TokenInfo
	err := d.module.lock.shared(ctx, func() (err error) {
		info, err = d.module.token(d.slot)
		return err
	})
	if err == nil && identify(d.module, info) == d.id {
		d.info = info
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	tokens, _, err := d.module.scan(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if identify(d.module, t) == d.id {
			d.slot, d.info = uint(t.SlotID), t
			return nil
		}
	}
	return d.removed()
}

// describe reads the description and PIN state afresh.
func (d *device) describe(ctx context.Context) (hsm.TokenInfo, error) {
	if err := d.gate.enter(ctx); err != nil {
		return hsm.TokenInfo{}, err
	}
	defer d.gate.leave()
	if d.closed {
		return hsm.TokenInfo{}, errClosed
	}
	d.read = time.Time{}
	err := d.locate(ctx)
	return d.info, fault("describe the token", err)
}

// states describes the token each time it is called, in last as well: the first
// time perhaps as its opening found it.
func (d *device) states(ctx context.Context, last *hsm.TokenInfo) func() (hsm.TokenInfo, error) {
	return func() (_ hsm.TokenInfo, err error) {
		info, ok := d.opening()
		if !ok {
			info, err = d.describe(ctx)
		}
		*last = info
		return info, err
	}
}

// opening returns what the opening of the token read, once and if it was just now.
func (d *device) opening() (hsm.TokenInfo, bool) {
	if !d.gate.try() { // somebody works with it: things may have changed
		return hsm.TokenInfo{}, false
	}
	defer d.gate.leave()
	fresh := !d.closed && time.Since(d.read) < justSeen
	d.read = time.Time{}
	return d.info, fresh
}

// lockOut logs out and lets the session go.
func (d *device) lockOut() error {
	if err := d.gate.enter(context.Background()); err != nil {
		return err
	}
	defer d.gate.leave()
	return d.logout()
}

func (d *device) logout() error {
	d.unlocked.Store(false)
	if !d.open {
		return nil
	}
	err := d.module.ctx.Logout(d.sh)
	if is(err, p11.CKR_USER_NOT_LOGGED_IN) || lost(err) {
		err = nil
	}
	d.drop()
	return fault("log out", err)
}

// release closes the session of a token that nobody has open or unlocked.
func (d *device) release() error {
	if err := d.gate.enter(context.Background()); err != nil {
		return err
	}
	defer d.gate.leave()
	if d.users.Load() == 0 && !d.unlocked.Load() {
		d.drop()
	}
	return nil
}

// close ends the device with its driver.
func (d *device) close() error {
	if err := d.gate.enter(context.Background()); err != nil {
		return err
	}
	defer d.gate.leave()
	d.closed = true
	return d.logout()
}
