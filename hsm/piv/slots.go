package piv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Slots implements [hsm.Token]: the slots that hold a key or a certificate.
func (t *Token) Slots(ctx context.Context, _ hsm.Prompter) ([]hsm.Slot, error) {
	all, err := inventory(ctx, t.card, applet.Slots())
	if err != nil {
		return nil, err
	}
	var used []hsm.Slot
	for _, s := range all {
		if s.Key != nil || s.Certificate != nil || s.Problem != "" {
			used = append(used, s)
		}
	}
	return used, nil
}

// AllSlots implements [hsm.Administration].
func (t *Token) AllSlots(ctx context.Context) ([]hsm.Slot, error) {
	return inventory(ctx, t.card, append(applet.Slots(), applet.SlotAttestation))
}

// inventory reads slots. One that cannot be read says so in its Problem.
func inventory(ctx context.Context, c *card, ids []byte) ([]hsm.Slot, error) {
	var all []hsm.Slot
	for len(all) < len(ids) {
		some, err := someSlots(ctx, c, ids[len(all):])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// someSlots reads the first slots of ids, as many as a row lasts for and at least one: a slow
// card takes many seconds for all of them, and others want to sign.
func someSlots(ctx context.Context, c *card, ids []byte) ([]hsm.Slot, error) {
	return on(ctx, c, func(s *applet.Session) ([]hsm.Slot, error) {
		out, began := make([]hsm.Slot, 0, len(ids)), time.Now()
		for _, id := range ids {
			if len(out) > 0 && time.Since(began) > c.cards.row {
				break
			}
			found, err := s.Keys.Read(id)
			if err != nil && !applet.Refused(err) && !errors.Is(err, hsm.ErrUnsupported) {
				return nil, err
			}
			slot := shown(c, id, found)
			if err != nil {
				slot.Problem = "unreadable: " + err.Error()
			}
			out = append(out, slot)
		}
		return out, nil
	})
}

// Slot implements [hsm.Token].
func (t *Token) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	if err := t.card.mine(u); err != nil {
		return hsm.Slot{}, err
	}
	if u.Slot != "" {
		return slotNamed(ctx, t.card, u.Slot)
	}
	all, err := t.Slots(ctx, nil)
	if err != nil {
		return hsm.Slot{}, err
	}
	name := t.card.about().Name()
	switch len(all) {
	case 0:
		return hsm.Slot{}, fmt.Errorf("token %q holds none: %w", name, hsm.ErrNoKey)
	case 1:
		return all[0], nil
	}
	return hsm.Slot{}, hint.With(fmt.Errorf("token %q holds %d: %w", name, len(all), hsm.ErrSeveralKeys),
		"name one by its slot, as "+all[0].URI.String())
}

// slotNamed reads the one slot, which must hold something.
func slotNamed(ctx context.Context, c *card, name string) (hsm.Slot, error) {
	id, err := applet.ParseSlot(name)
	if err != nil {
		return hsm.Slot{}, err
	}
	return on(ctx, c, func(s *applet.Session) (hsm.Slot, error) {
		found, err := s.Keys.Read(id)
		if err != nil {
			return hsm.Slot{}, fmt.Errorf("slot %s: %w", name, err)
		}
		if found.Empty() {
			return hsm.Slot{}, fmt.Errorf("slot %s is empty: %w", name, hsm.ErrNoKey)
		}
		return shown(c, id, found), nil
	})
}

// shown is a slot of the card as callers see it.
func shown(c *card, id byte, found applet.Content) hsm.Slot {
	name := applet.SlotName(id)
	u := c.about().URI()
	u.Slot = name
	out := hsm.Slot{URI: u, ID: name, Key: found.Key, Certificate: found.Certificate, Label: applet.SlotLabel(id)}
	switch {
	case id == applet.SlotAttestation:
		out.Key, out.Problem = nil, "reserved for the attestation key"
	case found.Unreadable != nil:
		out.Problem = "the certificate object is unreadable"
	case found.Key != nil && found.Certificate != nil && !out.CertificateMatches():
		out.Half, out.Problem = hsm.HalfOther, "the certificate is for another key"
	case found.Key == nil && found.Certificate != nil:
		out.Half, out.Problem = hsm.HalfCertificate, "a certificate without its key"
	}
	return out
}

// occupied reads a slot that must hold something, and its reference.
func (t *Token) occupied(ctx context.Context, u hsm.URI) (byte, hsm.Slot, error) {
	slot, err := t.Slot(ctx, u)
	if err != nil {
		return 0, slot, err
	}
	id, err := applet.ParseSlot(slot.ID)
	return id, slot, err
}

// keyed is occupied for a slot that must hold a key.
func (t *Token) keyed(ctx context.Context, u hsm.URI) (byte, hsm.Slot, error) {
	id, slot, err := t.occupied(ctx, u)
	if err == nil && slot.Key == nil {
		err = fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
	}
	return id, slot, err
}
