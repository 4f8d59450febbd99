//go:build cgo

package pkcs11

import (
	"context"
	"errors"
	"fmt"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// maxAsks bounds how often a new PIN is asked for.
const maxAsks = 3

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
	ask := func() (_ hsm.TokenInfo, err error) {
		asked, err = state(ctx, d, oldKind, p)
		return asked, err
	}
	return hsm.AskPIN(ctx, p, oldKind, ask, func(old *hsm.Secret) error {
		if fresh == nil && old != nil {
			info, err := d.describe(ctx)
			if err != nil {
				return err
			}
			if fresh, err = askNew(ctx, newKind, info, p); err != nil {
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

// state describes the token with the state of the PIN of that kind. For the SO
// PIN it does what [hsm.AskPIN] does for the user's: it refuses a locked one, and
// wants a yes of its own for the last try.
func state(ctx context.Context, d *device, kind hsm.PINKind, p hsm.Prompter) (hsm.TokenInfo, error) {
	info, err := d.describeFor(ctx, kind)
	if err != nil || kind != hsm.SOPIN {
		return info, err
	}
	switch {
	case info.PIN.Blocked():
		return info, hint.With(fmt.Errorf("the SO PIN of token %q: %w", info.Name(), hsm.ErrPINLocked),
			"only the maker's tools can help now")
	case info.PIN.Final:
		yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{
			Detail:   fmt.Sprintf("One try is left for the SO PIN of token %q. A wrong one blocks it.", info.Name()),
			Question: "Use the last try?",
		})
		if err == nil && !yes {
			err = fmt.Errorf("the last SO PIN try was not used: %w", hsm.ErrCancelled)
		}
		return info, err
	}
	return info, nil
}

// askNew asks for a new PIN until it has a fit form.
func askNew(ctx context.Context, kind hsm.PINKind, info hsm.TokenInfo, p hsm.Prompter) (*hsm.Secret, error) {
	prompt := hsm.PINPrompt{Kind: kind, Token: info, Retries: -1, New: true}
	for ask := 1; ; ask++ {
		secret, err := p.PIN(ctx, prompt)
		if err != nil {
			return nil, err
		}
		if err = hsm.CheckPIN(secret, info.PIN); err == nil {
			return secret, nil
		}
		secret.Zero()
		if ask == maxAsks || !errors.Is(err, hsm.ErrPINInvalid) {
			return nil, err
		}
		prompt.Again = err.Error()
	}
}
