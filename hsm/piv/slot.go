package piv

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// References and objects (SP 800-73-4 part 1 tables 3 and 4b; Yubico).
const (
	refPIN          = 0x80
	refPUK          = 0x81
	refManagement   = 0x9b
	slotAttestation = 0xf9

	objectCHUID       = 0x5fc102
	objectPrinted     = 0x5fc109 // PIN-protected data, where ykman keeps the management key
	objectPivman      = 0x5fff00 // ykman's flags
	objectAttestation = 0x5fff01
)

// slots lists the places for client keys, the usual ones first.
func slots() []byte {
	all := []byte{0x9a, 0x9c, 0x9d, 0x9e}
	for s := byte(0x82); s <= 0x95; s++ {
		all = append(all, s)
	}
	return all
}

func slotName(slot byte) string { return fmt.Sprintf("%02x", slot) }

// parseSlot reads "9a". The attestation slot is no place for a client key.
func parseSlot(id string) (byte, error) {
	n, err := strconv.ParseUint(id, 16, 8)
	if err == nil {
		for _, s := range slots() {
			if s == byte(n) {
				return s, nil
			}
		}
	}
	if n == slotAttestation && err == nil {
		return 0, fmt.Errorf("slot f9 holds the attestation key: %w", hsm.ErrUnsupported)
	}
	return 0, hint.With(fmt.Errorf("no PIV slot %q: %w", id, hsm.ErrNoKey), "use 9a, 9c, 9d, 9e or 82 to 95")
}

// certificateObject returns the data object beside a slot's key.
func certificateObject(slot byte) uint32 {
	switch slot {
	case 0x9a:
		return 0x5fc105
	case 0x9c:
		return 0x5fc10a
	case 0x9d:
		return 0x5fc10b
	case 0x9e:
		return 0x5fc101
	case slotAttestation:
		return objectAttestation
	}
	return 0x5fc10d + uint32(slot-0x82)
}

// content is what is in a slot.
type content struct {
	key  *hsm.Key
	cert *x509.Certificate
	// certBad is why the certificate object cannot be read, if there is one.
	certBad error
	// source is where the public key was read from.
	source string
}

// Where a slot's public key was read from.
const (
	sourceMetadata    = "metadata"
	sourceAttestation = "attestation"
	sourceCertificate = "certificate"
)

func (c content) empty() bool { return c.key == nil && c.cert == nil && c.certBad == nil }

// read finds out what is in a slot: by GET METADATA, else by the card's
// attestation, else by the certificate, which says nothing of policies and
// may even be for another key.
func (s *session) read(slot byte) (content, error) {
	var c content
	var err error
	if c.cert, err = s.certificate(slot); err != nil {
		if !isNonsense(err) {
			return c, err
		}
		c.certBad = err
	}
	m, err := s.metadata(slot)
	switch {
	case err == nil:
		key, err := m.key()
		if err != nil {
			return c, err
		}
		c.key, c.source = key, sourceMetadata
		return c, nil
	case errors.Is(err, errNoReference):
		return c, nil // the card says: no key
	case !refused(err):
		return c, err
	}
	der, err := s.attest(slot)
	if err == nil {
		if k, err := attestedKey(der); err == nil {
			c.key, c.source = k, sourceAttestation
			return c, nil
		}
	} else if !refused(err) {
		return c, err
	}
	if c.cert != nil && slot != slotAttestation {
		c.key = &hsm.Key{Algorithm: hsm.AlgorithmOf(c.cert.PublicKey), Public: c.cert.PublicKey}
		c.source = sourceCertificate
	}
	return c, nil
}

// slot makes the caller's view of it.
func (c content) slot(token hsm.URI, slot byte) hsm.Slot {
	token.Slot = slotName(slot)
	out := hsm.Slot{URI: token, ID: slotName(slot), Key: c.key, Certificate: c.cert, Label: slotLabel(slot)}
	switch {
	case slot == slotAttestation:
		out.Key, out.Problem = nil, "reserved for the attestation key"
	case c.certBad != nil:
		out.Problem = "the certificate object is unreadable"
	case c.key != nil && c.cert != nil && !out.CertificateMatches():
		out.Problem = "the certificate is for another key"
	case c.key == nil && c.cert != nil:
		out.Problem = "a certificate without its key"
	}
	return out
}

// slotLabel is what SP 800-73-4 calls the slot's key.
func slotLabel(slot byte) string {
	switch slot {
	case 0x9a:
		return "PIV authentication"
	case 0x9c:
		return "digital signature"
	case 0x9d:
		return "key management"
	case 0x9e:
		return "card authentication"
	case slotAttestation:
		return "attestation"
	}
	return fmt.Sprintf("retired key management %d", slot-0x82+1)
}
