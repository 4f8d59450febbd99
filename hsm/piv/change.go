package piv

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// maxAsks bounds how often a new secret is asked for.
const maxAsks = 3

// ChangePIN implements [hsm.Administration].
func (t *Token) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	if p == nil {
		return hsm.ErrPINRequired
	}
	var ref byte
	switch kind {
	case hsm.UserPIN, hsm.PIVPIN:
		kind, ref = hsm.PIVPIN, refPIN
	case hsm.PUK:
		ref = refPUK
	default:
		return fmt.Errorf("changing the %s here: %w", kind, hsm.ErrUnsupported)
	}
	return t.exchangeSecret(ctx, kind, kind, insChangeReference, ref, p)
}

// Unblock implements [hsm.Administration].
func (t *Token) Unblock(ctx context.Context, p hsm.Prompter) error {
	if p == nil {
		return hsm.ErrPINRequired
	}
	return t.exchangeSecret(ctx, hsm.PUK, hsm.PIVPIN, insResetRetry, refPIN, p)
}

// exchangeSecret asks for the old secret and the new one and sends both. A
// refused old one is asked for again, the new one only once.
func (t *Token) exchangeSecret(ctx context.Context, oldKind, newKind hsm.PINKind, ins, ref byte, p hsm.Prompter) error {
	var fresh *hsm.Secret
	defer func() { fresh.Zero() }()
	var asked hsm.TokenInfo
	err := hsm.AskPIN(ctx, p, oldKind,
		func() (_ hsm.TokenInfo, err error) {
			asked, err = t.state(ctx, oldKind, p)
			return asked, err
		},
		func(old *hsm.Secret) error {
			if fresh == nil {
				var err error
				if fresh, err = t.askNew(ctx, newKind, p); err != nil {
					return err
				}
			}
			_, err := do(ctx, t, func(s *session) (struct{}, error) {
				if err := s.unspent(oldKind, asked.PIN); err != nil {
					return struct{}{}, err
				}
				if err := s.commit(); err != nil {
					return struct{}{}, err
				}
				return struct{}{}, s.change(ins, ref, oldKind, old, fresh)
			})
			return err
		})
	if err == nil && newKind == hsm.PIVPIN {
		t.forget() // what is held may be the old one
	}
	return err
}

// change sends CHANGE REFERENCE DATA or RESET RETRY COUNTER (SP 800-73-4 part 2
// sections 3.2.2, 3.2.3).
func (s *session) change(ins, ref byte, oldKind hsm.PINKind, old, fresh *hsm.Secret) error {
	a, b := padded(old), padded(fresh)
	data := append(a, b...)
	defer clear(data)
	clear(b)
	defer clear(a)
	_, err := s.send(command{ins: ins, p2: ref, data: data})
	if isStatus(err, swWrongData, swConditions) {
		return hint.With(fmt.Errorf("the card does not take the new value: %w: %w", hsm.ErrUnsupported, err), "newer cards refuse simple ones: choose 6 to 8 characters that are no pattern")
	}
	return pinError(oldKind, err)
}

// state is the description that a prompt for a secret shows, with the tries
// of that secret. The last try of a PUK needs its own yes, as a PIN's does.
func (t *Token) state(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) (hsm.TokenInfo, error) {
	info, err := t.Info(ctx)
	if err != nil || kind != hsm.PUK {
		return info, err
	}
	d, err := t.Details(ctx)
	if err != nil {
		return info, err
	}
	info.PIN = hsm.PINState{Retries: -1, MinLen: minPIN, MaxLen: maxPIN}
	if d.PUK == nil {
		return info, nil
	}
	info.PIN.Retries, info.PIN.Default = d.PUK.Left, d.PUK.Default
	switch d.PUK.Left {
	case 0:
		return info, hint.With(fmt.Errorf("the PUK: %w", hsm.ErrPINLocked), "only a reset of the PIV application helps; it destroys its keys")
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
func (t *Token) askNew(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) (*hsm.Secret, error) {
	info := t.about()
	info.PIN.MinLen, info.PIN.MaxLen = minPIN, maxPIN
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
	if s := secret.Unsafe(); kind == hsm.PIVPIN && s == factoryPIN || kind == hsm.PUK && s == factoryPUK {
		return fmt.Errorf("%w: it is the default", hsm.ErrPINInvalid)
	}
	return nil
}

// The default values (Yubico).
const (
	factoryPIN = "123456"
	factoryPUK = "12345678"
)

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
	fresh, err := t.askNew(ctx, hsm.PUK, p)
	if err != nil {
		return err
	}
	defer fresh.Zero()
	_, err = manage(ctx, t, p, func(s *session) (struct{}, error) {
		held := t.held()
		defer held.Zero()
		if err := t.verifyHeld(s); err != nil {
			return struct{}{}, err
		}
		// From here on nothing may be left undone because somebody gave up.
		if err := s.commit(); err != nil {
			return struct{}{}, err
		}
		if _, err := s.send(command{ins: insSetRetries, p1: byte(pin), p2: byte(puk)}); err != nil {
			if unknownCommand(err) {
				err = fmt.Errorf("setting the number of tries: %w", hsm.ErrUnsupported)
			}
			return struct{}{}, err
		}
		oldPIN, oldPUK := hsm.NewSecret([]byte(factoryPIN)), hsm.NewSecret([]byte(factoryPUK))
		if err := s.change(insChangeReference, refPIN, hsm.PIVPIN, oldPIN, held); err != nil {
			return struct{}{}, hint.With(fmt.Errorf("the PIN and the PUK are the default ones now: %w", err), "change both at once: PIN 123456, PUK 12345678")
		}
		if err := s.change(insChangeReference, refPUK, hsm.PUK, oldPUK, fresh); err != nil {
			return struct{}{}, hint.With(fmt.Errorf("the PUK is the default one now: %w", err), "change it at once: it is 12345678")
		}
		return struct{}{}, nil
	})
	return err
}
