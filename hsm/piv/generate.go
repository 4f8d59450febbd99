package piv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Generate implements [hsm.Token].
func (t *Token) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	slot, err := parseSlot(o.Slot)
	if err != nil {
		return hsm.Slot{}, err
	}
	if o.Algorithm == "" {
		o.Algorithm = hsm.ECDSAP256
	}
	code, ok := algorithmCode(o.Algorithm)
	if !ok || o.Algorithm == "rsa-1024" {
		return hsm.Slot{}, fmt.Errorf("keys of type %s: %w", o.Algorithm, hsm.ErrUnsupported)
	}
	// Before anybody is asked anything: would it work at all?
	_, err = do(ctx, t, func(s *session) (struct{}, error) { return struct{}{}, s.mayGenerate(slot, o) })
	if err != nil {
		return hsm.Slot{}, err
	}
	return manage(ctx, t, p, func(s *session) (hsm.Slot, error) {
		if err := s.mayGenerate(slot, o); err != nil {
			return hsm.Slot{}, err
		}
		if err := s.christen(t); err != nil {
			return hsm.Slot{}, err
		}
		key, err := s.generate(slot, code, o)
		if err != nil {
			return hsm.Slot{}, err
		}
		if err := s.settle(slot); err != nil {
			return hsm.Slot{}, fmt.Errorf("the key was made, but: %w", err)
		}
		return content{key: key}.slot(t.about().URI(), slot), nil
	})
}

// mayGenerate checks that the firmware can and the slot is free.
func (s *session) mayGenerate(slot byte, o hsm.GenerateOptions) error {
	v := s.id.version
	need := func(major, minor byte, what string) error {
		if !v.known() || v.since(major, minor) {
			return nil
		}
		return hint.With(fmt.Errorf("%s: %w: firmware %s, needs %d.%d", what, hsm.ErrUnsupported, v, major, minor), "choose ecdsa-p256, which every PIV card makes, and policies that it knows")
	}
	var errs []error
	switch o.Algorithm {
	case hsm.ECDSAP384:
		errs = append(errs, need(4, 0, "keys of type ecdsa-p384"))
	case hsm.RSA3072, hsm.RSA4096, hsm.Ed25519:
		errs = append(errs, need(5, 7, fmt.Sprintf("keys of type %s", o.Algorithm)))
	}
	if o.Algorithm.RSABits() > 0 && (v.since(4, 2) && !v.since(4, 3) || v[0] == 4 && v[1] == 3 && v[2] < 5) {
		// CVE-2017-15361, Yubico advisory YSA-2017-01: such keys can be factored.
		errs = append(errs, hint.With(fmt.Errorf("RSA keys made by firmware %s are weak: %w", v, hsm.ErrUnsupported), "choose ecdsa-p256"))
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
	c, err := s.read(slot)
	if err != nil && !refused(err) {
		return err
	}
	if err != nil || !c.empty() {
		return hint.With(fmt.Errorf("slot %s: %w", slotName(slot), hsm.ErrOccupied), "choose an empty slot, or allow its key to be destroyed")
	}
	return nil
}

// generate is GENERATE ASYMMETRIC KEY PAIR. Policies left to the card are not
// sent: plain PIV cards do not know them.
func (s *session) generate(slot, code byte, o hsm.GenerateOptions) (*hsm.Key, error) {
	template := tlv(0x80, []byte{code})
	if o.PIN != hsm.PINDefault {
		template = append(template, tlv(0xaa, []byte{pinCode(o.PIN)})...)
	}
	if o.Touch != hsm.TouchDefault {
		template = append(template, tlv(0xab, []byte{touchCode(o.Touch)})...)
	}
	// A key that nobody hears of stays in the way: wait for it, unless it takes
	// long (RSA) and can be removed again.
	removable := s.id.version.since(5, 7)
	if o.Algorithm.RSABits() == 0 || !removable {
		if err := s.commit(); err != nil {
			return nil, err
		}
	}
	b, err := s.send(command{ins: insGenerate, p2: slot, data: tlv(0xac, template)})
	if gone := s.ctx.Err(); err == nil && gone != nil {
		_, err := s.sendAnyway(command{ins: insMoveKey, p1: 0xff, p2: slot})
		return nil, errors.Join(gone, err)
	}
	if isStatus(err, swWrongData, swFunction) {
		return nil, fmt.Errorf("key %s with PIN policy %s and touch policy %s: %w: %w", o.Algorithm, o.PIN, o.Touch, hsm.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	inner, err := unwrap(b, 0x7f49)
	if err != nil {
		return nil, nonsense{err}
	}
	pub, err := parsePublic(code, inner)
	if err != nil {
		return nil, err
	}
	key := &hsm.Key{Algorithm: o.Algorithm, Public: pub, Origin: hsm.Generated, PIN: o.PIN, Touch: o.Touch}
	if m, err := s.metadata(slot); err == nil {
		if told, err := m.key(); err == nil && hsm.SameKey(told.Public, pub) {
			key = told
		}
	}
	return key, nil
}

// settle removes the certificate of the slot's former key.
func (s *session) settle(slot byte) error {
	old, err := s.getObject(certificateObject(slot))
	if err != nil && !refused(err) {
		return err
	}
	if len(old) > 0 {
		if err := s.putObject(certificateObject(slot), nil); err != nil {
			return fmt.Errorf("the former certificate could not be removed: %w", err)
		}
	}
	return nil
}

// christen gives a card that has no serial and no holder identifier a random
// one, before anything is written that it would otherwise be known by.
func (s *session) christen(t *Token) error {
	if s.id.from == fromSerial || s.id.from == fromGUID {
		return nil
	}
	guid := make([]byte, 16)
	rand.Read(guid) // never fails
	// The FASC-N (SP 800-73-4 part 1 section 3.1.2) is a federal agency's number: all zero here.
	chuid := bytes.Join([][]byte{tlv(0x30, make([]byte, 25)), tlv(0x34, guid), tlv(0x35, []byte("20991231")), tlv(0x3e), tlv(0xfe)}, nil)
	if err := s.putObject(objectCHUID, chuid); err != nil {
		return fmt.Errorf("the card could not be given an identifier: %w", err)
	}
	s.id.serial, s.id.from = hex.EncodeToString(guid), fromGUID
	t.rename(s.id.serial)
	return nil
}
