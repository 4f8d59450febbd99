package piv

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Generate implements [hsm.Token].
func (t *Token) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	slot, err := applet.ParseSlot(o.Slot)
	if err != nil {
		return hsm.Slot{}, err
	}
	if o.Algorithm == "" {
		o.Algorithm = hsm.ECDSAP256
	}
	code, ok := applet.AlgorithmCode(o.Algorithm)
	if !ok || o.Algorithm == "rsa-1024" {
		return hsm.Slot{}, fmt.Errorf("keys of type %s: %w", o.Algorithm, hsm.ErrUnsupported)
	}
	// Before anybody is asked anything: would it work at all?
	err = do(ctx, t.card, func(s *applet.Session) error { return mayGenerate(s, slot, o, t.card.about().Can) })
	if err != nil {
		return hsm.Slot{}, err
	}
	return managed(ctx, t, p, func(s *applet.Session) (hsm.Slot, error) {
		can := t.card.about().Can
		if err := mayGenerate(s, slot, o, can); err != nil {
			return hsm.Slot{}, err
		}
		if err := t.card.christen(s); err != nil {
			return hsm.Slot{}, err
		}
		key, err := s.Keys.Generate(slot, code, o, can.Delete)
		if errors.Is(err, hsm.ErrUnsupported) { // the card has not said so before
			err = hint.With(err, can.Instead(o.Algorithm)+refusedPolicies(o))
		}
		if err != nil {
			return hsm.Slot{}, err
		}
		if err := settle(s, slot, key); err != nil {
			return hsm.Slot{}, fmt.Errorf("the key was made, but: %w", err)
		}
		if err := t.try(s, slot, code, key); err != nil {
			return hsm.Slot{}, err
		}
		return shown(t.card, slot, applet.Content{Key: key}), nil
	})
}

// mayGenerate checks that the card can, as far as it tells, and that the slot is free.
func mayGenerate(s *applet.Session, slot byte, o hsm.GenerateOptions, can hsm.Abilities) error {
	if err := can.Makes(o); err != nil {
		return err
	}
	if o.Overwrite {
		return nil
	}
	c, err := s.Keys.Read(slot)
	if err != nil && !applet.Refused(err) {
		return err
	}
	if err != nil || !c.Empty() {
		return hint.With(fmt.Errorf("slot %s: %w", applet.SlotName(slot), hsm.ErrOccupied),
			"choose an empty slot, or allow its key to be destroyed")
	}
	return nil
}

// refusedPolicies is the other thing to do about a key that was refused.
func refusedPolicies(o hsm.GenerateOptions) string {
	if o.PIN == hsm.PINDefault && o.Touch == hsm.TouchDefault {
		return ""
	}
	return ", or leave out --pin-policy and --touch-policy; the card then chooses"
}

// try has the new key sign once, where that costs neither a question nor a touch, and
// removes a key whose signature does not verify. One that wants more is tried by its first
// signature, which is that of the certificate request.
func (t *Token) try(s *applet.Session, slot, code byte, key *hsm.Key) error {
	free := key.PIN == hsm.PINNever || key.PIN == hsm.PINDefault && slot == 0x9e
	if key.Touch > hsm.TouchNever || !free && !t.card.pin.there() {
		return nil
	}
	if !free {
		if err := t.card.pin.prove(s); errors.Is(err, errNeedPIN) {
			return nil
		} else if err != nil {
			return err
		}
	}
	message := []byte("kubehsm tries a new key")
	opts := crypto.SignerOpts(crypto.SHA256)
	if key.Algorithm == hsm.Ed25519 {
		opts = crypto.Hash(0)
	} else {
		sum := sha256.Sum256(message)
		message = sum[:]
	}
	block, err := prepare(rand.Reader, key.Public, message, opts)
	if err != nil {
		return err
	}
	sig, err := s.Keys.Sign(slot, code, block)
	switch {
	case errors.Is(err, applet.NotSatisfied): // The card wants something that its policy does not tell.
		return nil
	case !applet.Refused(err):
		return fmt.Errorf("the key was made, but could not be tried: %w", err)
	case err == nil && verifies(key.Public, message, sig, opts):
		return nil
	}
	return t.useless(s, slot, key.Algorithm)
}

// useless removes a key that does not sign as it should, if the card deletes keys, and says
// what to do instead.
func (t *Token) useless(s *applet.Session, slot byte, a hsm.Algorithm) error {
	can, name, gone := t.card.about().Can, applet.SlotName(slot), "the key was removed"
	if !can.Delete {
		gone = "the key is in slot " + name + " and cannot be used"
	} else if err := s.Keys.Delete(slot); err != nil {
		gone = fmt.Sprintf("the key in slot %s cannot be used, and could not be removed: %v", name, err)
	}
	return hint.With(fmt.Errorf("the card's %s signatures do not verify: %w; %s", a, hsm.ErrUnsupported, gone),
		can.Instead(a))
}

// settle removes the certificate of the slot's former key. Where nothing else would tell
// the new key, its place is taken by a note of it.
func settle(s *applet.Session, slot byte, key *hsm.Key) error {
	has, err := s.Objects.HasCertificate(slot)
	if err != nil && !applet.Refused(err) {
		return err
	}
	if has {
		if err := s.Objects.DeleteCertificate(slot); err != nil {
			return fmt.Errorf("the former certificate could not be removed: %w", err)
		}
	}
	told, err := s.Keys.Read(slot)
	if err != nil && !applet.Refused(err) {
		return err
	}
	if err == nil && told.Key != nil {
		return nil
	}
	if err := s.Objects.PutPlaceholder(slot, key.Public); err != nil {
		return fmt.Errorf("the card does not tell its public key, and the placeholder certificate could not be "+
			"written: %w", err)
	}
	return nil
}
