package piv

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
)

// Delete implements [hsm.Token]: key and certificate, or the certificate alone
// if there is no key. A card whose firmware keeps keys is left as it was.
func (t *Token) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	id, slot, err := t.occupied(ctx, u)
	if err != nil {
		return err
	}
	if slot.Key != nil && !t.card.about().Can.Delete {
		return fmt.Errorf("delete slot %s: %w", slot.ID, applet.NoMove())
	}
	err = manage(ctx, t, p, func(s *applet.Session) error {
		if err := t.card.begin(s); err != nil {
			return err
		}
		if slot.Key != nil {
			// A placeholder may stand for a key that is gone already.
			if err := s.Keys.Delete(id); err != nil && !errors.Is(err, hsm.ErrNoKey) {
				return err
			}
		}
		return s.Objects.DeleteCertificate(id)
	})
	if err != nil {
		return fmt.Errorf("delete slot %s: %w", slot.ID, err)
	}
	return nil
}

// follow has the placeholder of a key that was moved go along, where there is one.
func follow(s *applet.Session, from, to byte, public crypto.PublicKey) error {
	has, err := s.Objects.HasCertificate(from)
	if err != nil && !applet.Refused(err) || !has {
		return err
	}
	if err := s.Objects.PutPlaceholder(to, public); err != nil {
		return err
	}
	return s.Objects.DeleteCertificate(from)
}

// Move implements [hsm.Administration]. The certificate is written at its new place
// before it is removed from the old one.
func (t *Token) Move(ctx context.Context, from, to hsm.URI, p hsm.Prompter) (hsm.Slot, error) {
	id, slot, err := t.keyed(ctx, from)
	if err != nil {
		return hsm.Slot{}, err
	}
	if err := t.card.mine(to); err != nil {
		return hsm.Slot{}, err
	}
	target, err := applet.ParseSlot(to.Slot)
	if err != nil {
		return hsm.Slot{}, err
	}
	place := applet.SlotName(target)
	if !t.card.about().Can.Move {
		return hsm.Slot{}, fmt.Errorf("move slot %s: %w", slot.ID, applet.NoMove())
	}
	return managed(ctx, t, p, func(s *applet.Session) (hsm.Slot, error) {
		there, err := s.Keys.Read(target)
		if err != nil && !applet.Refused(err) {
			return hsm.Slot{}, err
		}
		if err != nil || !there.Empty() {
			return hsm.Slot{}, fmt.Errorf("slot %s: %w", place, hsm.ErrOccupied)
		}
		if err := t.card.begin(s); err != nil {
			return hsm.Slot{}, err
		}
		if err := s.Keys.Move(id, target); err != nil {
			return hsm.Slot{}, fmt.Errorf("move slot %s: %w", slot.ID, err)
		}
		if slot.Certificate != nil {
			if err := s.Objects.PutCertificate(target, slot.Certificate); err != nil {
				return hsm.Slot{}, fmt.Errorf("the key is in slot %s now, its certificate still in %s: %w", place, slot.ID, err)
			}
			if err := s.Objects.DeleteCertificate(id); err != nil {
				return hsm.Slot{}, fmt.Errorf("the key is in slot %s now, its certificate in both: %w", place, err)
			}
		} else if err := follow(s, id, target, slot.Key.Public); err != nil {
			return hsm.Slot{}, fmt.Errorf("the key is in slot %s now, but the card does not list it there: %w", place, err)
		}
		return shown(t.card, target, applet.Content{Key: slot.Key, Certificate: slot.Certificate}), nil
	})
}
