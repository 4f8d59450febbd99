package piv

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// errNoDelete says that the firmware keeps its keys.
func errNoDelete(v version) error {
	return hint.With(fmt.Errorf("deleting and moving keys: %w: it needs firmware 5.7, this is %s", hsm.ErrUnsupported, orUnknown(v)), "overwrite the key with a new one, or reset the PIV application")
}

func orUnknown(v version) string {
	if !v.known() {
		return "unknown"
	}
	return v.String()
}

// occupied reads a slot that must hold something.
func (t *Token) occupied(ctx context.Context, u hsm.URI) (byte, hsm.Slot, error) {
	slot, err := t.Slot(ctx, u)
	if err != nil {
		return 0, slot, err
	}
	id, err := parseSlot(slot.ID)
	return id, slot, err
}

// Delete implements [hsm.Token]: key and certificate, or the certificate alone
// if there is no key. A card whose firmware keeps keys is left as it was.
func (t *Token) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	id, slot, err := t.occupied(ctx, u)
	if err != nil {
		return err
	}
	_, err = manage(ctx, t, p, func(s *session) (struct{}, error) {
		if err := s.christen(t); err != nil {
			return struct{}{}, err
		}
		if err := s.commit(); err != nil {
			return struct{}{}, err
		}
		if slot.Key != nil {
			if err := s.moveKey(id, 0xff); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, s.putObject(certificateObject(id), nil)
	})
	if err != nil {
		return fmt.Errorf("delete slot %s: %w", slot.ID, err)
	}
	return nil
}

// moveKey is Yubico's MOVE KEY; the destination FF deletes.
func (s *session) moveKey(from, to byte) error {
	if v := s.id.version; v.known() && !v.since(5, 7) {
		return errNoDelete(v)
	}
	_, err := s.send(command{ins: insMoveKey, p1: to, p2: from})
	switch {
	case unknownCommand(err):
		return errNoDelete(s.id.version)
	case isStatus(err, swNoReference):
		return hsm.ErrNoKey
	}
	return err
}

// DeleteCertificate implements [hsm.Administration].
func (t *Token) DeleteCertificate(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	id, slot, err := t.occupied(ctx, u)
	if err != nil {
		return err
	}
	if slot.Certificate == nil && slot.Problem == "" {
		return fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoCertificate)
	}
	_, err = manage(ctx, t, p, func(s *session) (struct{}, error) {
		if err := s.christen(t); err != nil {
			return struct{}{}, err
		}
		if err := s.commit(); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.putObject(certificateObject(id), nil)
	})
	return err
}

// Move implements [hsm.Administration]. The certificate is written at its new place
// before it is removed from the old one.
func (t *Token) Move(ctx context.Context, from, to hsm.URI, p hsm.Prompter) (hsm.Slot, error) {
	id, slot, err := t.occupied(ctx, from)
	if err != nil {
		return hsm.Slot{}, err
	}
	if slot.Key == nil {
		return hsm.Slot{}, fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrNoKey)
	}
	if err := t.mine(to); err != nil {
		return hsm.Slot{}, err
	}
	target, err := parseSlot(to.Slot)
	if err != nil {
		return hsm.Slot{}, err
	}
	return manage(ctx, t, p, func(s *session) (hsm.Slot, error) {
		there, err := s.read(target)
		if err != nil && !refused(err) {
			return hsm.Slot{}, err
		}
		if err != nil || !there.empty() {
			return hsm.Slot{}, fmt.Errorf("slot %s: %w", slotName(target), hsm.ErrOccupied)
		}
		if err := s.christen(t); err != nil {
			return hsm.Slot{}, err
		}
		if err := s.commit(); err != nil {
			return hsm.Slot{}, err
		}
		if err := s.moveKey(id, target); err != nil {
			return hsm.Slot{}, fmt.Errorf("move slot %s: %w", slot.ID, err)
		}
		moved := content{key: slot.Key, cert: slot.Certificate}
		if slot.Certificate != nil {
			if err := s.putObject(certificateObject(target), encodeCertificate(slot.Certificate)); err != nil {
				return hsm.Slot{}, fmt.Errorf("the key is in slot %s now, its certificate still in %s: %w", slotName(target), slot.ID, err)
			}
			if err := s.putObject(certificateObject(id), nil); err != nil {
				return hsm.Slot{}, fmt.Errorf("the key is in slot %s now, its certificate in both: %w", slotName(target), err)
			}
		}
		return moved.slot(t.about().URI(), target), nil
	})
}
