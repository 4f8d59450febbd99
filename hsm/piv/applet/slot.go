package applet

import (
	"crypto/x509"
	"fmt"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Key references (SP 800-73-4 part 1 table 4b; Yubico).
const (
	refPIN        = 0x80
	refPUK        = 0x81
	refManagement = 0x9b

	// SlotAttestation holds the key that signs attestations.
	SlotAttestation = 0xf9
)

// Slots lists the places for client keys, the usual ones first.
func Slots() []byte {
	all := []byte{0x9a, 0x9c, 0x9d, 0x9e}
	for s := byte(0x82); s <= 0x95; s++ {
		all = append(all, s)
	}
	return all
}

// SlotName is a slot in two hex digits, as people write it.
func SlotName(slot byte) string { return fmt.Sprintf("%02x", slot) }

// ParseSlot reads "9a". The attestation slot is no place for a client key.
func ParseSlot(id string) (byte, error) {
	n, err := strconv.ParseUint(id, 16, 8)
	if err == nil {
		for _, s := range Slots() {
			if s == byte(n) {
				return s, nil
			}
		}
	}
	if n == SlotAttestation && err == nil {
		return 0, fmt.Errorf("slot f9 holds the attestation key: %w", hsm.ErrUnsupported)
	}
	return 0, hint.With(fmt.Errorf("no PIV slot %q: %w", id, hsm.ErrNoKey), "use 9a, 9c, 9d, 9e or 82 to 95")
}

// SlotLabel is what SP 800-73-4 calls the slot's key.
func SlotLabel(slot byte) string {
	switch slot {
	case 0x9a:
		return "PIV authentication"
	case 0x9c:
		return "digital signature"
	case 0x9d:
		return "key management"
	case 0x9e:
		return "card authentication"
	case SlotAttestation:
		return "attestation"
	}
	return fmt.Sprintf("retired key management %d", slot-0x82+1)
}

// Content is what is in a slot.
type Content struct {
	Key         *hsm.Key
	Certificate *x509.Certificate
	// Unreadable is why the certificate object cannot be read, if there is one.
	Unreadable error
	// Guessed tells that nothing but the certificate says which key it is: the certificate may
	// be for another one.
	Guessed bool
}

// Empty tells whether the slot holds nothing.
func (c Content) Empty() bool { return c.Key == nil && c.Certificate == nil && c.Unreadable == nil }
