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

// ChangePIN implements [hsm.Administration] for the user PIN and the SO PIN.
func (t *token) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	set := func(sh p11.SessionHandle, old, fresh *hsm.Secret) error {
		return t.module.lib.setPIN(t.module.ctx, sh, old, fresh)
	}
	switch kind {
	case hsm.UserPIN:
		return t.exchange(ctx, kind, kind, p, set)
	case hsm.SOPIN:
		return t.exchange(ctx, kind, kind, p, func(sh p11.SessionHandle, old, fresh *hsm.Secret) error {
			return t.module.asSO(sh, old, func() error { return set(sh, old, fresh) })
		})
	}
	return hint.With(fmt.Errorf("changing the %s here: %w", kind, hsm.ErrUnsupported), "a PKCS#11 token has a PIN and an SO PIN")
}

// Unblock implements [hsm.Administration] with the SO PIN.
func (t *token) Unblock(ctx context.Context, p hsm.Prompter) error {
	return t.exchange(ctx, hsm.SOPIN, hsm.UserPIN, p, func(sh p11.SessionHandle, so, fresh *hsm.Secret) error {
		return t.module.asSO(sh, so, func() error { return t.module.lib.initPIN(t.module.ctx, sh, fresh) })
	})
}

// asSO runs f logged in as security officer.
func (m *module) asSO(sh p11.SessionHandle, so *hsm.Secret, f func() error) error {
	if err := m.lib.login(m.ctx, sh, p11.CKU_SO, so); err != nil {
		return err
	}
	err := f()
	if out := m.ctx.Logout(sh); !lost(out) {
		err = errors.Join(err, out)
	}
	return err
}

// exchange asks for a PIN of oldKind and a new one of newKind and hands both to
// f, once for each time the old one was typed.
func (t *token) exchange(ctx context.Context, oldKind, newKind hsm.PINKind, p hsm.Prompter, f func(sh p11.SessionHandle, old, fresh *hsm.Secret) error) error {
	if p == nil {
		return hsm.ErrPINRequired
	}
	if err := t.asking.enter(ctx); err != nil {
		return err
	}
	defer t.asking.leave()
	var fresh *hsm.Secret
	defer func() { fresh.Zero() }()
	var asked hsm.TokenInfo
	state := func() (_ hsm.TokenInfo, err error) {
		asked, err = t.state(ctx, oldKind, p)
		return asked, err
	}
	return hsm.AskPIN(ctx, p, oldKind, state, func(old *hsm.Secret) error {
		if fresh == nil && old != nil {
			info, err := t.describe(ctx)
			if err != nil {
				return err
			}
			if fresh, err = askNew(ctx, newKind, info, p); err != nil {
				return err
			}
		}
		err := t.alone(ctx, old == nil, func(sh p11.SessionHandle) error {
			if old != nil {
				if err := t.unspent(oldKind, asked.PIN); err != nil {
					return err
				}
			}
			return f(sh, old, fresh)
		})
		if is(err, p11.CKR_PIN_INCORRECT) {
			return t.refused(ctx, oldKind)
		}
		err = fault("set the "+string(newKind), err)
		if errors.Is(err, hsm.ErrPINInvalid) { // the token does not take the new one
			fresh.Zero()
			fresh = nil
		}
		return err
	})
}

// alone runs f with a read/write session, logged out, and no other of ours: the
// security officer's login tolerates no read-only one (PKCS#11 v2.40,
// C_Login). A PIN pad's user may take a minute: other processes are not kept
// waiting for that.
func (d *device) alone(ctx context.Context, pad bool, f func(sh p11.SessionHandle) error) error {
	return d.with(ctx, func(p11.SessionHandle) error {
		if err := d.logout(); err != nil {
			return err
		}
		defer d.module.finishing.Begin()()
		run := func() error { return d.module.session(d.slot, f) }
		if pad {
			return run()
		}
		return d.module.lock.exclusive(ctx, run)
	})
}

// session runs f with a read/write session of its own.
func (m *module) session(slot uint, f func(sh p11.SessionHandle) error) (err error) {
	sh, err := m.ctx.OpenSession(slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	if err != nil {
		return err
	}
	defer func() {
		if closing := m.ctx.CloseSession(sh); !lost(closing) {
			err = errors.Join(err, closing)
		}
	}()
	return f(sh)
}

// refused is the error for a PIN that the token did not take.
func (d *device) refused(ctx context.Context, kind hsm.PINKind) error {
	retries := -1
	info, err := d.describe(ctx)
	if err == nil && kind == hsm.SOPIN {
		info.PIN, err = d.soState(ctx)
	}
	if err == nil {
		retries = info.PIN.Retries
	}
	return &hsm.PINError{Kind: kind, Retries: retries}
}

// state describes the token with the state of the PIN of that kind. For the SO
// PIN it does what [hsm.AskPIN] does for the user's: it refuses a locked one, and
// wants a yes of its own for the last try.
func (d *device) state(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) (hsm.TokenInfo, error) {
	info, err := d.describe(ctx)
	if err != nil || kind != hsm.SOPIN {
		return info, err
	}
	if info.PIN, err = d.soState(ctx); err != nil {
		return info, err
	}
	switch {
	case info.PIN.Blocked():
		return info, hint.With(fmt.Errorf("the SO PIN of token %q: %w", info.Name(), hsm.ErrPINLocked), "only the maker's tools can help now")
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

// soState reads CK_TOKEN_INFO's flags about the SO PIN.
func (d *device) soState(ctx context.Context) (hsm.PINState, error) {
	if err := d.gate.enter(ctx); err != nil {
		return hsm.PINState{}, err
	}
	defer d.gate.leave()
	var t p11.TokenInfo
	err := d.module.lock.shared(ctx, func() (err error) {
		t, err = d.module.ctx.GetTokenInfo(d.slot)
		return err
	})
	return soPINState(t), fault("describe the token", err)
}

// soPINState is [pinState] for the SO PIN.
func soPINState(t p11.TokenInfo) hsm.PINState {
	has := func(flag uint) bool { return t.Flags&flag != 0 }
	s := hsm.PINState{
		Retries: -1,
		Low:     has(p11.CKF_SO_PIN_COUNT_LOW), Final: has(p11.CKF_SO_PIN_FINAL_TRY), Locked: has(p11.CKF_SO_PIN_LOCKED),
		Default: has(p11.CKF_SO_PIN_TO_BE_CHANGED), PINPad: has(p11.CKF_PROTECTED_AUTHENTICATION_PATH),
		MinLen: length(t.MinPinLen), MaxLen: length(t.MaxPinLen),
	}
	switch {
	case s.Locked:
		s.Retries = 0
	case s.Final:
		s.Retries = 1
	}
	return s
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
