package hsm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Algorithm names a key's type and size.
type Algorithm string

// The algorithms that Kubernetes API servers accept in client certificates and
// tokens can generate. [ECDSAP256] is the default: every token has it, and it
// works with TLS 1.2 and 1.3 alike.
const (
	ECDSAP256 Algorithm = "ecdsa-p256"
	ECDSAP384 Algorithm = "ecdsa-p384"
	RSA2048   Algorithm = "rsa-2048"
	RSA3072   Algorithm = "rsa-3072"
	RSA4096   Algorithm = "rsa-4096"
	Ed25519   Algorithm = "ed25519"
)

// Algorithms lists all of them, the default first.
func Algorithms() []Algorithm {
	return []Algorithm{ECDSAP256, ECDSAP384, RSA2048, RSA3072, RSA4096, Ed25519}
}

// ParseAlgorithm reads a name, case-insensitively and with the short forms in
// common use: p256, eccp256 (ykman), rsa2048 …. "" is [ECDSAP256].
func ParseAlgorithm(s string) (Algorithm, error) {
	norm := strings.NewReplacer("-", "", "_", "", "ecdsa", "", "ecc", "", "ec", "").Replace(strings.ToLower(s))
	for _, a := range Algorithms() {
		if norm == strings.NewReplacer("-", "", "ecdsa", "").Replace(string(a)) {
			return a, nil
		}
	}
	if s == "" {
		return ECDSAP256, nil
	}
	names := make([]string, 0, 6)
	for _, a := range Algorithms() {
		names = append(names, string(a))
	}
	return "", hint.With(fmt.Errorf("unknown key algorithm %q", s), "use one of "+strings.Join(names, ", "))
}

// RSABits returns the modulus length in bits, or 0 for other algorithms.
func (a Algorithm) RSABits() int {
	switch a {
	case RSA2048:
		return 2048
	case RSA3072:
		return 3072
	case RSA4096:
		return 4096
	}
	return 0
}

// AlgorithmOf names the algorithm of a public key; other keys get a
// descriptive name that [ParseAlgorithm] does not accept.
func AlgorithmOf(pub crypto.PublicKey) Algorithm {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return ECDSAP256
		case elliptic.P384():
			return ECDSAP384
		}
		return Algorithm("ecdsa-" + strings.ToLower(k.Curve.Params().Name))
	case *rsa.PublicKey:
		return Algorithm(fmt.Sprintf("rsa-%d", k.N.BitLen()))
	case ed25519.PublicKey:
		return Ed25519
	}
	return Algorithm(fmt.Sprintf("unknown (%T)", pub))
}

// Fingerprint returns the SHA-256 of the key's SubjectPublicKeyInfo (RFC 5280
// section 4.1) as 64 lower-case hex digits. It names the key in files and records.
func Fingerprint(pub crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// SameKey tells whether two public keys are equal.
func SameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && b != nil && k.Equal(b)
}
