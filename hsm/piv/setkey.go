package piv

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// SetManagementKey implements [hsm.Administration]. A key to be protected is written to the
// card before it is put in force, beside the one that it replaces, so that whatever fails in
// between never leaves the card with a key that nobody has.
func (t *Token) SetManagementKey(ctx context.Context, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret, error) {
	if !t.card.about().Can.ManagementKey {
		return nil, fmt.Errorf("setting the management key: %w", hsm.ErrUnsupported)
	}
	if o.Protect {
		if err := t.Unlock(ctx, p); err != nil {
			return nil, err
		}
	}
	var key *hsm.Secret
	err := manage(ctx, t, p, func(s *applet.Session) error {
		algorithm, fresh, err := s.Management.NewKey(o)
		if err != nil {
			return err
		}
		// A key in force that nobody was told of would be the end of the card.
		if err := s.Commit(); err != nil {
			fresh.Zero()
			return err
		}
		former, err := t.card.announce(s, o.Protect, fresh)
		if err != nil {
			fresh.Zero()
			return err
		}
		defer former.Zero()
		err = s.Management.Set(algorithm, fresh, o)
		switch {
		case err == nil:
		case applet.Refused(err):
			err = t.card.decide(s, err, algorithm, fresh, former, o, func() func() { return t.card.touching(ctx, s, p) })
		case o.Protect:
			fresh.Zero()
			return hint.With(err, "run the command again: the old key or the new one is in force, and the card has kept "+
				"what it takes to go on")
		}
		if errors.Is(err, applet.ErrOldKey) {
			fresh.Zero()
			return err
		}
		key = fresh
		if err != nil {
			return err
		}
		if o.Protect {
			if err := s.Management.Keep(fresh); err != nil {
				return err
			}
		}
		return s.Management.Note(o)
	})
	return key, err
}

// decide finds out which key is in force after the card has refused a new one. If the card kept
// no key before, decide first removes the copy of the new key: a failed authentication with one
// key ends the authentication with the other, and then nothing can be written.
func (c *card) decide(s *applet.Session, refused error, a hsm.ManagementAlgorithm, fresh, former *hsm.Secret,
	o hsm.ManagementKeyOptions, touch func() func()) error {
	var unkept error
	if o.Protect && former == nil {
		unkept = s.Management.Keep(nil)
	}
	if err := s.Management.Decide(refused, a, fresh, o, touch); err != nil {
		return errors.Join(err, unkept)
	}
	return nil
}

// announce writes the new key where only the PIN reads it, if it shall be protected, beside
// the one that is there, which it returns, or nil.
func (c *card) announce(s *applet.Session, yes bool, key *hsm.Secret) (former *hsm.Secret, err error) {
	if !yes {
		return nil, nil
	}
	if !s.PINs.Verified() {
		if err := c.pin.prove(s); err != nil {
			return nil, err
		}
	}
	former, next, err := s.Management.KeptKeys()
	if err != nil {
		return nil, err
	}
	next.Zero()
	return former, s.Management.Announce(former, key)
}

// Reset implements [hsm.Administration]: it locks PIN and PUK on purpose, which the
// card wants first, and sets PIV to the state of a new card. A card without a serial
// has another identity afterwards, which [Token.Info] tells. A card that does not
// tell a firmware version is left alone: locked and without RESET it would be lost.
func (t *Token) Reset(ctx context.Context, p hsm.Prompter) error {
	if p == nil {
		return hsm.ErrNoTerminal
	}
	info := t.card.about()
	if info.Firmware == "" {
		return fmt.Errorf("resetting a card of unknown make: %w", hsm.ErrUnsupported)
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{
		Detail: "All PIV keys and certificates of the token are destroyed for good. PIN, PUK and management key become " +
			"the default ones.\n" +
			"What remains: the attestation key, and everything outside PIV (FIDO, OpenPGP, OTP, OATH).",
		Question: "Reset the PIV application of " + info.Name() + "?", Type: info.Serial,
	})
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("not reset: %w", hsm.ErrCancelled)
	}
	t.card.pin.drop()
	return do(ctx, t.card, func(s *applet.Session) error {
		err := s.Reset()
		t.card.renamed(s)
		return err
	})
}
