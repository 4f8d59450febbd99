package piv

import (
	"context"
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
	err = do(ctx, t.card, func(s *applet.Session) error { return mayGenerate(s, slot, o) })
	if err != nil {
		return hsm.Slot{}, err
	}
	return managed(ctx, t, p, func(s *applet.Session) (hsm.Slot, error) {
		if err := mayGenerate(s, slot, o); err != nil {
			return hsm.Slot{}, err
		}
		if err := t.card.christen(s); err != nil {
			return hsm.Slot{}, err
		}
		key, err := s.Keys.Generate(slot, code, o)
		if err != nil {
			return hsm.Slot{}, err
		}
		if err := settle(s, slot); err != nil {
			return hsm.Slot{}, fmt.Errorf("the key was made, but: %w", err)
		}
		return shown(t.card, slot, applet.Content{Key: key}), nil
	})
}

// mayGenerate checks that the firmware can and the slot is free.
func mayGenerate(s *applet.Session, slot byte, o hsm.GenerateOptions) error {
	v := s.ID.Version
	need := func(major, minor byte, what string) error {
		if !v.Known() || v.Since(major, minor) {
			return nil
		}
		return hint.With(fmt.Errorf("%s: %w: firmware %s, needs %d.%d", what, hsm.ErrUnsupported, v, major, minor),
			"choose ecdsa-p256, which every PIV card makes, and policies that it knows")
	}
	var errs []error
	switch o.Algorithm {
	case hsm.ECDSAP384:
		errs = append(errs, need(4, 0, "keys of type ecdsa-p384"))
	case hsm.RSA3072, hsm.RSA4096, hsm.Ed25519:
		errs = append(errs, need(5, 7, fmt.Sprintf("keys of type %s", o.Algorithm)))
	}
	if o.Algorithm.RSABits() > 0 && (v.Since(4, 2) && !v.Since(4, 3) || v[0] == 4 && v[1] == 3 && v[2] < 5) {
		// CVE-2017-15361, Yubico advisory YSA-2017-01: such keys can be factored.
		errs = append(errs, hint.With(fmt.Errorf("RSA keys made by firmware %s are weak: %w", v, hsm.ErrUnsupported),
			"choose ecdsa-p256"))
	}
	if o.PIN != hsm.PINDefault || o.Touch > hsm.TouchNever {
		errs = append(errs, need(4, 0, "PIN and touch policies"))
	}
	if o.Touch == hsm.TouchCached {
		errs = append(errs, need(4, 3, "the touch policy cached"))
	}
	if err := errors.Join(errs...); err != nil {
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

// settle removes the certificate of the slot's former key.
func settle(s *applet.Session, slot byte) error {
	has, err := s.Objects.HasCertificate(slot)
	if err != nil && !applet.Refused(err) {
		return err
	}
	if has {
		if err := s.Objects.DeleteCertificate(slot); err != nil {
			return fmt.Errorf("the former certificate could not be removed: %w", err)
		}
	}
	return nil
}
