package piv

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
)

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
			asked, err = describeFor(ctx, t, oldKind)
			return asked, err
		},
		func(old *hsm.Secret) error {
			if fresh == nil {
				var err error
				if fresh, err = askNew(ctx, t.card, newKind, p); err != nil {
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
		t.card.pin.drop() // the PIN that is held may be the old one
	}
	return err
}

// describeFor describes the token with the state of the PIN of that kind.
func describeFor(ctx context.Context, t *Token, kind hsm.PINKind) (hsm.TokenInfo, error) {
	info, err := t.Info(ctx)
	if err != nil || kind != hsm.PUK {
		return info, err
	}
	info.PIN = hsm.PINState{Retries: -1, MinLen: applet.MinPIN, MaxLen: applet.MaxPIN}
	puk, err := on(ctx, t.card, func(s *applet.Session) (*hsm.Tries, error) {
		_, puk, err := s.PINs.Counters()
		return puk, err
	})
	if puk != nil {
		info.PIN.Retries, info.PIN.Default, info.PIN.Low = puk.Left, puk.Default, puk.Left < puk.Total
	}
	return info, err
}

// askNew asks for a new PIN or PUK.
func askNew(ctx context.Context, c *card, kind hsm.PINKind, p hsm.Prompter) (*hsm.Secret, error) {
	info := c.about()
	info.PIN.MinLen, info.PIN.MaxLen = applet.MinPIN, applet.MaxPIN
	return hsm.AskNewPIN(ctx, p, kind, info, func(fresh *hsm.Secret) error { return checkNew(kind, fresh) })
}

// checkNew refuses the default values, and bytes that do not come out of
// every keyboard alike.
func checkNew(kind hsm.PINKind, fresh *hsm.Secret) error {
	for _, c := range fresh.Bytes() {
		if c < 0x20 || c > 0x7e {
			return fmt.Errorf("%w: use letters, digits and signs of ASCII", hsm.ErrPINInvalid)
		}
	}
	card := hsm.KindOf(hsm.SchemePIV)
	if s := fresh.Unsafe(); kind == hsm.PIVPIN && s == card.DefaultPIN || kind == hsm.PUK && s == card.DefaultPUK {
		return fmt.Errorf("%w: it is the default", hsm.ErrPINInvalid)
	}
	return nil
}
