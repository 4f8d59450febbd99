package piv

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// maxAsks bounds how often a new secret is asked for.
const maxAsks = 3

// ChangePIN implements [hsm.Administration].
func (t *Token) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	if p == nil {
		return hsm.ErrPINRequired
	}
	switch kind {
	case hsm.UserPIN, hsm.PIVPIN:
		kind = hsm.PIVPIN
	case hsm.PUK:
	default:
		return fmt.Errorf("changing the %s here: %w", kind, hsm.ErrUnsupported)
	}
	return exchange(ctx, t, kind, kind, p, func(pins applet.PINs, old, fresh *hsm.Secret) error {
		return pins.Change(kind, old, fresh)
	})
}

// Unblock implements [hsm.Administration].
func (t *Token) Unblock(ctx context.Context, p hsm.Prompter) error {
	if p == nil {
		return hsm.ErrPINRequired
	}
	return exchange(ctx, t, hsm.PUK, hsm.PIVPIN, p, applet.PINs.Unblock)
}

// exchange asks for the old secret and the new one and hands both to set. A
// refused old one is asked for again, the new one only once.
func exchange(
	ctx context.Context, t *Token, oldKind, newKind hsm.PINKind, p hsm.Prompter,
	set func(pins applet.PINs, old, fresh *hsm.Secret) error,
) error {
	var fresh *hsm.Secret
	defer func() { fresh.Zero() }()
	var asked hsm.TokenInfo
	err := hsm.AskPIN(ctx, p, oldKind,
		func() (_ hsm.TokenInfo, err error) {
			asked, err = state(ctx, t, oldKind, p)
			return asked, err
		},
		func(old *hsm.Secret) error {
			if fresh == nil {
				var err error
				if fresh, err = askNew(ctx, t.card.about(), newKind, p); err != nil {
					return err
				}
			}
			return do(ctx, t.card, func(s *applet.Session) error {
				if err := s.PINs.Unspent(oldKind, asked.PIN); err != nil {
					return err
				}
				if err := s.Commit(); err != nil {
					return err
				}
				return set(s.PINs, old, fresh)
			})
		})
	if err == nil && newKind == hsm.PIVPIN {
		t.card.pin.drop() // what is held may be the old one
	}
	return err
}

// state is the description that a prompt for a secret shows, with the tries
// of that secret. The last try of a PUK needs its own yes, as a PIN's does.
func state(ctx context.Context, t *Token, kind hsm.PINKind, p hsm.Prompter) (hsm.TokenInfo, error) {
	info, err := t.Info(ctx)
	if err != nil || kind != hsm.PUK {
		return info, err
	}
	d, err := t.Details(ctx)
	if err != nil {
		return info, err
	}
	info.PIN = hsm.PINState{Retries: -1, MinLen: applet.MinPIN, MaxLen: applet.MaxPIN}
	if d.PUK == nil {
		return info, nil
	}
	info.PIN.Retries, info.PIN.Default = d.PUK.Left, d.PUK.Default
	switch d.PUK.Left {
	case 0:
		return info, hint.With(fmt.Errorf("the PUK: %w", hsm.ErrPINLocked),
			"only a reset of the PIV application helps; it destroys its keys")
	case 1:
		yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{
			Detail: "One try is left for the PUK. A wrong one blocks it for good.", Question: "Use the last try?",
		})
		if err == nil && !yes {
			err = fmt.Errorf("the last PUK try was not used: %w", hsm.ErrCancelled)
		}
		return info, err
	}
	return info, nil
}

// askNew asks for a new PIN or PUK until it has a fit form.
func askNew(ctx context.Context, info hsm.TokenInfo, kind hsm.PINKind, p hsm.Prompter) (*hsm.Secret, error) {
	info.PIN.MinLen, info.PIN.MaxLen = applet.MinPIN, applet.MaxPIN
	prompt := hsm.PINPrompt{Kind: kind, Token: info, Retries: -1, New: true}
	for ask := 1; ; ask++ {
		secret, err := p.PIN(ctx, prompt)
		if err != nil {
			return nil, err
		}
		err = checkNew(kind, secret, info.PIN)
		if err == nil {
			return secret, nil
		}
		secret.Zero()
		if ask == maxAsks || !errors.Is(err, hsm.ErrPINInvalid) {
			return nil, err
		}
		prompt.Again = err.Error()
	}
}

// checkNew refuses the default values, and bytes that do not come out of
// every keyboard alike.
func checkNew(kind hsm.PINKind, secret *hsm.Secret, state hsm.PINState) error {
	if err := hsm.CheckPIN(secret, state); err != nil {
		return err
	}
	for _, c := range secret.Bytes() {
		if c < 0x20 || c > 0x7e {
			return fmt.Errorf("%w: use letters, digits and signs of ASCII", hsm.ErrPINInvalid)
		}
	}
	if s := secret.Unsafe(); kind == hsm.PIVPIN && s == applet.DefaultPIN || kind == hsm.PUK && s == applet.DefaultPUK {
		return fmt.Errorf("%w: it is the default", hsm.ErrPINInvalid)
	}
	return nil
}

// SetRetries implements [hsm.Administration]. The card sets PIN and PUK to the
// default values with it, so both are set again in the same transaction.
func (t *Token) SetRetries(ctx context.Context, pin, puk int, p hsm.Prompter) error {
	if pin < 1 || pin > 15 || puk < 1 || puk > 15 {
		return fmt.Errorf("%d and %d tries: %w: 1 to 15 each", pin, puk, hsm.ErrUnsupported)
	}
	if p == nil {
		return hsm.ErrPINRequired
	}
	if err := t.Unlock(ctx, p); err != nil {
		return err
	}
	fresh, err := askNew(ctx, t.card.about(), hsm.PUK, p)
	if err != nil {
		return err
	}
	defer fresh.Zero()
	return manage(ctx, t, p, func(s *applet.Session) error {
		held := t.card.pin.copy()
		defer held.Zero()
		if err := t.card.pin.prove(s); err != nil {
			return err
		}
		// From here on nothing may be left undone because somebody gave up.
		if err := s.Commit(); err != nil {
			return err
		}
		if err := s.PINs.SetRetries(pin, puk); err != nil {
			return err
		}
		oldPIN, oldPUK := hsm.NewSecret([]byte(applet.DefaultPIN)), hsm.NewSecret([]byte(applet.DefaultPUK))
		if err := s.PINs.Change(hsm.PIVPIN, oldPIN, held); err != nil {
			return hint.With(fmt.Errorf("the PIN and the PUK are the default ones now: %w", err),
				"change both at once: PIN 123456, PUK 12345678")
		}
		if err := s.PINs.Change(hsm.PUK, oldPUK, fresh); err != nil {
			return hint.With(fmt.Errorf("the PUK is the default one now: %w", err), "change it at once: it is 12345678")
		}
		return nil
	})
}
