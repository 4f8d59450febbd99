//go:build cgo

package pkcs11

import (
	"context"
	"sync/atomic"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// device is one token, shared by all who opened it.
type device struct {
	users  atomic.Int32
	asking gate // gate of questions: one question for the PIN at a time
	gate   gate // gate of the session: one piece of work at a time
	session
}

// newDevice returns the device that was found with that description at the time read.
func newDevice(m *module, info hsm.TokenInfo, read time.Time) *device {
	d := &device{asking: newGate(), gate: m.gate}
	d.presence = presence{module: m, id: identify(m, info), slot: uint(info.SlotID), info: info, read: read, seen: read}
	if d.gate == nil {
		d.gate = newGate()
	}
	return d
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
func (d *device) writing(ctx context.Context, f func(w writer) error) error {
	return d.with(ctx, func(p11.SessionHandle) error {
		return d.module.change(ctx, false, func() error {
			return d.module.readWrite(d.slot, func(sh p11.SessionHandle) error { return f(writer{d.module, sh}) })
		})
	})
}

// alone runs f with a read/write session, logged out, and no other of ours: the
// security officer's login tolerates no read-only one (PKCS#11 v2.40,
// C_Login).
func (d *device) alone(ctx context.Context, pad bool, f func(sh p11.SessionHandle) error) error {
	return d.with(ctx, func(p11.SessionHandle) error {
		if err := d.logout(); err != nil {
			return err
		}
		return d.module.change(ctx, pad, func() error { return d.module.readWrite(d.slot, f) })
	})
}

// shut runs f alone on the token, logged out and without a session.
func (d *device) shut(ctx context.Context, f func() error) error {
	if err := d.gate.enter(ctx); err != nil {
		return err
	}
	defer d.gate.leave()
	if d.closed {
		return errClosed
	}
	if err := d.locate(ctx); err != nil {
		return err
	}
	if err := d.logout(); err != nil {
		return err
	}
	return f()
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
	if !d.gate.try() { // another session is busy and may change the token
		return hsm.TokenInfo{}, false
	}
	defer d.gate.leave()
	fresh := !d.closed && time.Since(d.read) < justSeen
	d.read = time.Time{}
	return d.info, fresh
}

// unlockedNow tells whether keys can be used without asking for a PIN. While the token
// is busy it tells what was last known.
func (d *device) unlockedNow() bool {
	if !d.gate.try() {
		return d.unlocked.Load()
	}
	defer d.gate.leave()
	return d.stillUsable()
}

// lockOut logs out and lets the session go.
func (d *device) lockOut() error {
	if err := d.gate.enter(context.Background()); err != nil {
		return err
	}
	defer d.gate.leave()
	return d.logout()
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

// describeFor is describe with the state of the PIN of that kind.
func (d *device) describeFor(ctx context.Context, kind hsm.PINKind) (hsm.TokenInfo, error) {
	info, err := d.describe(ctx)
	if err != nil || kind != hsm.SOPIN {
		return info, err
	}
	if err := d.gate.enter(ctx); err != nil {
		return info, err
	}
	defer d.gate.leave()
	info.PIN, err = d.soState(ctx)
	return info, err
}
