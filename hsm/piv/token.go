package piv

import (
	"context"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
)

// Token is one PIV card, wherever it is plugged in. It does all of
// [hsm.Administration] that the card can.
type Token struct {
	card   *card
	asking chan struct{} // holds one element: a single PIN prompt at a time
	closed func(*Token)  // callback for when the token is closed
}

var _ hsm.Token = (*Token)(nil)

// Info implements [hsm.Token].
func (t *Token) Info(ctx context.Context) (hsm.TokenInfo, error) {
	return on(ctx, t.card, func(s *applet.Session) (hsm.TokenInfo, error) {
		info := t.card.about()
		info.Reader = t.card.place()
		var err error
		info.PIN, err = s.PINs.State()
		return info, err
	})
}

// Unlock implements [hsm.Token].
func (t *Token) Unlock(ctx context.Context, p hsm.Prompter) error {
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.Unlocked() { // another caller was asked meanwhile
		return ctx.Err()
	}
	var asked hsm.TokenInfo
	return hsm.AskPIN(ctx, p, hsm.PIVPIN,
		func() (_ hsm.TokenInfo, err error) {
			asked, err = t.Info(ctx)
			return asked, err
		},
		func(pin *hsm.Secret) error {
			err := do(ctx, t.card, func(s *applet.Session) error {
				if err := s.PINs.Unspent(hsm.PIVPIN, asked.PIN); err != nil {
					return err
				}
				return s.PINs.Verify(pin)
			})
			if err == nil {
				t.card.keep(pin)
			}
			return err
		})
}

// Unlocked implements [hsm.Token].
func (t *Token) Unlocked() bool { return t.card.pin.there() }

// lockPatience bounds how long Lock waits for the card.
const lockPatience = 5 * time.Second

// Lock implements [hsm.Token]: it forgets the PIN, and sees to it that the card
// has forgotten it too, should another program have left it verified.
func (t *Token) Lock() error {
	t.card.pin.drop()
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	err := do(ctx, t.card, func(s *applet.Session) error {
		s.PINs.LeftVerified() // the end of the session makes the card forget the PIN
		return nil
	})
	if errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) || errors.Is(err, hsm.ErrBusy) ||
		errors.Is(err, context.DeadlineExceeded) {
		return nil // nothing of ours is verified there
	}
	return err
}

// Close implements [hsm.Token].
func (t *Token) Close() error {
	t.card.pin.drop()
	t.closed(t)
	return nil
}
