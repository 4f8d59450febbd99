package attest

import (
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// What can be wrong with an attestation.
var (
	ErrMalformed     = errors.New("malformed attestation")
	ErrUnknownIssuer = errors.New("the attestation is not traced to a trusted maker")
	ErrOtherKey      = errors.New("the attestation is for another key")
)

// Statement is what an attestation says. [Parse] does not verify it: all of it
// is then only the word of whoever sent it.
type Statement struct {
	// Slot is the PIV slot ("9a"), "" if it is not told.
	Slot string `json:"slot,omitempty"`
	// Model is in words ("YubiKey 5C"), as far as firmware and form factor tell.
	Model    string          `json:"model,omitempty"`
	Serial   string          `json:"serial,omitempty"`
	Firmware string          `json:"firmware,omitempty"`
	PIN      hsm.PINPolicy   `json:"pinPolicy"`
	Touch    hsm.TouchPolicy `json:"touchPolicy"`
	// FIPS: the device is of a FIPS series.
	FIPS bool `json:"fips,omitempty"`
	// Key is the attested public key, Algorithm its type.
	Key       crypto.PublicKey `json:"-"`
	Algorithm hsm.Algorithm    `json:"algorithm"`
	// Root is the name of the root that it was verified to, "" if it was not.
	Root string `json:"root,omitempty"`
}

// Yubico's extensions (docs.yubico.com, "PIV attestation OID arc").
const (
	oidFirmware = 3
	oidSerial   = 7
	oidPolicy   = 8
	oidForm     = 9
	oidFIPS     = 10
)

// oid returns an identifier of Yubico's arc.
func oid(last int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, last}
}

func extension(cert *x509.Certificate, last int) ([]byte, bool) {
	for _, e := range cert.Extensions {
		if e.Id.Equal(oid(last)) {
			return e.Value, true
		}
	}
	return nil, false
}

// subjectPrefix starts the subject of every statement; the slot follows.
const subjectPrefix = "YubiKey PIV Attestation "

// Parse reads an attestation without verifying it. Errors wrap [ErrMalformed].
func Parse(a hsm.Attestation) (Statement, error) {
	cert, err := x509.ParseCertificate(a.Statement)
	if err != nil {
		return Statement{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return parse(cert)
}

func parse(cert *x509.Certificate) (Statement, error) {
	s := Statement{Key: cert.PublicKey, Algorithm: hsm.AlgorithmOf(cert.PublicKey)}
	policy, ok := extension(cert, oidPolicy)
	if !ok || len(policy) != 2 {
		return s, fmt.Errorf("%w: it tells no PIN and touch policy", ErrMalformed)
	}
	if s.PIN, ok = pinPolicies[policy[0]]; !ok {
		return s, fmt.Errorf("%w: unknown PIN policy %d", ErrMalformed, policy[0])
	}
	if s.Touch, ok = touchPolicies[policy[1]]; !ok {
		return s, fmt.Errorf("%w: unknown touch policy %d", ErrMalformed, policy[1])
	}
	if slot, ok := strings.CutPrefix(cert.Subject.CommonName, subjectPrefix); ok {
		if b, err := hex.DecodeString(slot); err == nil && len(b) == 1 {
			s.Slot = strings.ToLower(slot)
		}
	}
	var major byte
	if v, ok := extension(cert, oidFirmware); ok {
		if len(v) != 3 {
			return s, fmt.Errorf("%w: firmware version of %d bytes", ErrMalformed, len(v))
		}
		major = v[0]
		s.Firmware = fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
	}
	if v, ok := extension(cert, oidSerial); ok {
		var n int64
		if rest, err := asn1.Unmarshal(v, &n); err != nil || len(rest) > 0 || n < 0 {
			return s, fmt.Errorf("%w: serial number", ErrMalformed)
		}
		s.Serial = fmt.Sprint(n)
	}
	var form byte
	if v, ok := extension(cert, oidForm); ok {
		if len(v) != 1 {
			return s, fmt.Errorf("%w: form factor of %d bytes", ErrMalformed, len(v))
		}
		form = v[0]
	}
	_, certified := extension(cert, oidFIPS)
	s.FIPS = form&0x80 != 0 || certified
	s.Model = model(major, form, s.FIPS)
	return s, nil
}

// The codes of policies; 4 and 5 accept a finger in the PIN's place.
var (
	pinPolicies = map[byte]hsm.PINPolicy{
		1: hsm.PINNever, 2: hsm.PINOnce, 3: hsm.PINAlways, 4: hsm.PINOnce, 5: hsm.PINAlways,
	}
	touchPolicies = map[byte]hsm.TouchPolicy{1: hsm.TouchNever, 2: hsm.TouchAlways, 3: hsm.TouchCached}
)

// model words firmware and form factor as Yubico names its devices.
func model(major, form byte, fips bool) string {
	name := "YubiKey"
	if major >= 4 {
		name += fmt.Sprintf(" %d", major)
	}
	if major >= 5 {
		switch form & 0x3f {
		case 1:
			name += "A"
		case 2:
			name += " Nano"
		case 3:
			name += "C"
		case 4:
			name += "C Nano"
		case 5:
			name += "Ci"
		case 6:
			name += " Bio"
		case 7:
			name += "C Bio"
		}
	}
	if fips {
		name += " FIPS"
	}
	return name
}

// String says it in words: "generated on YubiKey 5C 12345678, firmware 5.7.1,
// PIN once, touch always". The numbers are digits only, the words our own: it
// is safe to print.
func (s Statement) String() string {
	text := "generated on " + s.Model
	if s.Serial != "" {
		text += " " + s.Serial
	}
	if s.Firmware != "" {
		text += ", firmware " + s.Firmware
	}
	return text + fmt.Sprintf(", PIN %s, touch %s", s.PIN, s.Touch)
}
