package discovery

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strings"

	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
)

const pinFormat = "sha256"

// Pin is the SHA-256 of a certificate's SubjectPublicKeyInfo (RFC 7469): it
// names a certificate authority by its key.
type Pin [sha256.Size]byte

// ParsePin reads a pin of the form sha256:HEX, in any case, as
// --discovery-token-ca-cert-hash takes it.
func ParsePin(text string) (Pin, error) {
	const field = "discovery-token-ca-cert-hash"
	const hint = "a hash is sha256: and 64 hexadecimal digits, as `kubeadm token create --print-join-command` shows it"
	format, digits, ok := strings.Cut(text, ":")
	if !ok || !strings.EqualFold(format, pinFormat) {
		return Pin{}, problem.BadInput(field, hint, "%q does not begin with sha256:", text)
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != sha256.Size {
		return Pin{}, problem.BadInput(field, hint, "%q is not a SHA-256 hash in hexadecimal", text)
	}
	return Pin(raw), nil
}

// ParsePins is [ParsePin] of several.
func ParsePins(texts []string) ([]Pin, error) {
	pins := make([]Pin, 0, len(texts))
	for _, text := range texts {
		p, err := ParsePin(text)
		if err != nil {
			return nil, err
		}
		pins = append(pins, p)
	}
	return pins, nil
}

// PinOf is the pin of cert's key.
func PinOf(cert *x509.Certificate) Pin { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// PinsOf are the pins of all certificates in a PEM bundle: what a join command
// names.
func PinsOf(caData []byte) ([]Pin, error) {
	certs, err := parseCAs(caData)
	if err != nil {
		return nil, err
	}
	pins := make([]Pin, len(certs))
	for i, c := range certs {
		pins[i] = PinOf(c)
	}
	return pins, nil
}

// String is the form that [ParsePin] reads.
func (p Pin) String() string { return pinFormat + ":" + hex.EncodeToString(p[:]) }

// MarshalText is [Pin.String].
func (p Pin) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePin].
func (p *Pin) UnmarshalText(text []byte) error {
	got, err := ParsePin(string(text))
	if err == nil {
		*p = got
	}
	return err
}
