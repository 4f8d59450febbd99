package attest

import (
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
)

//go:embed roots/yubico-roots.pem
var yubicoRootsPEM []byte

//go:embed roots/yubico-intermediates.pem
var yubicoIntermediatesPEM []byte

// YubicoRoots returns the roots of Yubico's PIV attestation certificates: the
// PIV root of 2016, the U2F root that signed some devices of 2017 and 2018, and
// the common root of 2024.
func YubicoRoots() ([]*x509.Certificate, error) { return parsePEM(yubicoRootsPEM) }

// yubicoIntermediates are those for PIV only: the root of 2024 also stands
// above FIDO and OpenPGP certificates, which state other things.
func yubicoIntermediates() ([]*x509.Certificate, error) { return parsePEM(yubicoIntermediatesPEM) }

func parsePEM(data []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%w: a PEM block of type %q", ErrMalformed, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no PEM certificate", ErrMalformed)
	}
	return all, nil
}
