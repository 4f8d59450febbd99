//go:build cgo

package pkcs11

import (
	"context"
	"errors"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// unlock logs in if need be, asking p. A PIN typed for it is cloned into keep
// if that is not nil; the caller zeroes it.
func unlock(ctx context.Context, d *device, p hsm.Prompter, keep **hsm.Secret) error {
	if err := d.asking.enter(ctx); err != nil {
		return err
	}
	defer d.asking.leave()
	ready := false
	err := d.with(ctx, func(p11.SessionHandle) error {
		ready = d.usable()
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

// exchange asks for a PIN of oldKind and a new one of newKind and hands both to
// f, once for each time the old one was typed.
func exchange(
	ctx context.Context, d *device, oldKind, newKind hsm.PINKind, p hsm.Prompter,
	f func(sh p11.SessionHandle, old, fresh *hsm.Secret) error,
) error {
	if p == nil {
		return hsm.ErrPINRequired
	}
	if err := d.asking.enter(ctx); err != nil {
		return err
	}
	defer d.asking.leave()
	var fresh *hsm.Secret
	defer func() { fresh.Zero() }()
	var asked hsm.TokenInfo
	state := func() (_ hsm.TokenInfo, err error) {
		asked, err = d.describeFor(ctx, oldKind)
		return asked, err
	}
	return hsm.AskPIN(ctx, p, oldKind, state, func(old *hsm.Secret) error {
		if fresh == nil && old != nil {
			info, err := d.describe(ctx)
			if err != nil {
				return err
			}
			if fresh, err = hsm.AskNewPIN(ctx, p, newKind, info, nil); err != nil {
				return err
			}
		}
		err := d.alone(ctx, old == nil, func(sh p11.SessionHandle) error {
			if old != nil {
				if err := d.unspent(oldKind, asked.PIN); err != nil {
					return err
				}
			}
			return f(sh, old, fresh)
		})
		if is(err, p11.CKR_PIN_INCORRECT) {
			return refusedPIN(ctx, d, oldKind)
		}
		err = fault("set the "+string(newKind), err)
		if errors.Is(err, hsm.ErrPINInvalid) { // the token does not take the new one
			fresh.Zero()
			fresh = nil
		}
		return err
	})
}

// refusedPIN is the error for a PIN that the token did not take.
func refusedPIN(ctx context.Context, d *device, kind hsm.PINKind) error {
	retries := -1
	if info, err := d.describeFor(ctx, kind); err == nil {
		retries = info.PIN.Retries
	}
	return &hsm.PINError{Kind: kind, Retries: retries}
}
