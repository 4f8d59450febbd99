package applet

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Keys are the keys in the slots, with what is beside them.
type Keys struct {
	c       *channel
	objects Objects
}

// Describe reads what the card says of the key in a slot (GET METADATA): nil if there
// is none. told is false if it does not say.
func (k Keys) Describe(slot byte) (key *hsm.Key, told bool, err error) {
	m, err := k.c.metadata(slot)
	switch {
	case err == nil:
		key, err = m.key()
		return key, true, err
	case errors.Is(err, errNoReference):
		return nil, true, nil
	case !Refused(err):
		return nil, false, err
	}
	return nil, false, nil
}

// Read finds out what is in a slot: by GET METADATA, else by the card's
// attestation, else by the certificate, which says nothing of policies and
// may even be for another key, or by what stands in for one.
func (k Keys) Read(slot byte) (Content, error) {
	var c Content
	var err error
	if c.Certificate, err = k.objects.Certificate(slot); err != nil {
		if !isNonsense(err) {
			return c, err
		}
		c.Unreadable = err
	}
	var note *x509.Certificate
	if isPlaceholder(c.Certificate) {
		note, c.Certificate = c.Certificate, nil
	}
	key, told, err := k.Describe(slot)
	if err != nil || told {
		c.Key = key
		if note != nil && (key == nil || !hsm.SameKey(key.Public, note.PublicKey)) {
			c.Certificate = note // a placeholder for a deleted key
		}
		return c, err
	}
	der, err := k.Attest(slot)
	if err == nil {
		if key, err := attestedKey(der); err == nil {
			c.Key = key
			return c, nil
		}
	} else if !Refused(err) {
		return c, err
	}
	switch {
	case note != nil:
		c.Key = noted(note)
	case c.Certificate != nil && slot != SlotAttestation:
		public := c.Certificate.PublicKey
		c.Key, c.Guessed = &hsm.Key{Algorithm: hsm.AlgorithmOf(public), Public: public}, true
	}
	return c, nil
}

// Attest is Yubico's ATTEST (firmware 4.3): the card's certificate for a key
// that it generated, in DER.
func (k Keys) Attest(slot byte) ([]byte, error) {
	if k.c.attestsNot {
		return nil, swUnknownINS
	}
	b, err := k.c.send(command{ins: insAttest, p1: slot})
	k.c.attestsNot = isStatus(err, swUnknownINS, swUnknownClass)
	return b, err
}

// Sign applies the private key in a slot to a block, see [AlgorithmCode]. PIN and touch
// are up to the caller: without them the error is [NotSatisfied].
func (k Keys) Sign(slot, code byte, block []byte) ([]byte, error) {
	b, err := k.c.send(command{
		ins: insAuthenticate, p1: code, p2: slot, data: tlv(0x7c, tlv(0x82), tlv(0x81, block)),
	})
	if err != nil {
		return nil, err
	}
	template, err := unwrap(b, 0x7c)
	if err != nil {
		return nil, nonsense{err}
	}
	return unwrap(template, 0x82)
}

// Delete destroys the key in a slot (Yubico's MOVE KEY to FF, firmware 5.7), but not the
// certificate beside it. Cards whose firmware keeps keys answer [hsm.ErrUnsupported].
func (k Keys) Delete(slot byte) error {
	_, err := k.c.send(command{ins: insMoveKey, p1: 0xff, p2: slot})
	switch {
	case StatusOf(err).Unknown():
		return NoDelete()
	case isStatus(err, swNoReference):
		return hsm.ErrNoKey
	}
	return err
}

// NoDelete says that the card keeps its keys.
func NoDelete() error {
	return hint.With(fmt.Errorf("deleting keys: %w: it does not know the command "+
		"(YubiKeys: from firmware 5.7 on)", hsm.ErrUnsupported), "overwrite the key with a new one")
}

// Generate makes a key in a slot (GENERATE ASYMMETRIC KEY PAIR) by the options and the
// code of their algorithm, and commits. It does not send policies that are left to the
// card: plain PIV cards do not know them. One that takes long is given up if it is
// removable, so that it can be deleted.
func (k Keys) Generate(slot, code byte, o hsm.GenerateOptions, removable bool) (*hsm.Key, error) {
	template := tlv(0x80, []byte{code})
	if o.PIN != hsm.PINDefault {
		template = append(template, tlv(0xaa, []byte{pinCode(o.PIN)})...)
	}
	if o.Touch != hsm.TouchDefault {
		template = append(template, tlv(0xab, []byte{touchCode(o.Touch)})...)
	}
	// A key that nobody hears of stays in the way: wait for it, unless it takes
	// long (RSA) and can be removed again.
	if o.Algorithm.RSABits() == 0 || !removable {
		if err := k.c.commit(); err != nil {
			return nil, err
		}
	}
	b, err := k.c.send(command{ins: insGenerate, p2: slot, data: tlv(0xac, template)})
	if err == nil {
		if gone := k.c.commit(); gone != nil {
			_, err := k.c.sendAnyway(command{ins: insMoveKey, p1: 0xff, p2: slot})
			return nil, errors.Join(gone, err)
		}
	}
	if isStatus(err, swWrongData, swFunction, swWrongP1P2) {
		return nil, fmt.Errorf("key %s with PIN policy %s and touch policy %s: %w: %w",
			o.Algorithm, o.PIN, o.Touch, hsm.ErrUnsupported, err)
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
	if described, _, err := k.Describe(slot); err == nil && described != nil && hsm.SameKey(described.Public, pub) {
		key = described
	}
	return key, nil
}
