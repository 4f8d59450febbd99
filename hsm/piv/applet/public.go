package applet

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"

	"github.com/kubehsm/kubehsm/hsm"
)

// Algorithm codes (SP 800-78-4 table 6-2; Yubico firmware 5.7).
const (
	algRSA3072 = 0x05
	algRSA1024 = 0x06
	algRSA2048 = 0x07
	algP256    = 0x11
	algP384    = 0x14
	algRSA4096 = 0x16
	algEd25519 = 0xe0
)

// AlgorithmCode returns the code that commands have for a.
func AlgorithmCode(a hsm.Algorithm) (byte, bool) {
	code, ok := map[hsm.Algorithm]byte{
		hsm.ECDSAP256: algP256, hsm.ECDSAP384: algP384, hsm.Ed25519: algEd25519,
		hsm.RSA2048: algRSA2048, hsm.RSA3072: algRSA3072, hsm.RSA4096: algRSA4096, "rsa-1024": algRSA1024,
	}[a]
	return code, ok
}

// parsePublic reads a public key (SP 800-73-4 part 2 table 11).
func parsePublic(alg byte, b []byte) (crypto.PublicKey, error) {
	fields, err := parseTLV(b)
	if err != nil {
		return nil, nonsense{err}
	}
	switch alg {
	case algP256, algP384:
		curve := elliptic.P256()
		if alg == algP384 {
			curve = elliptic.P384()
		}
		point, _ := fields.get(0x86)
		k, err := ecdsa.ParseUncompressedPublicKey(curve, point)
		if err != nil {
			return nil, nonsense{err}
		}
		return k, nil
	case algEd25519:
		point, _ := fields.get(0x86)
		if len(point) != ed25519.PublicKeySize {
			return nil, nonsense{errTLV}
		}
		return ed25519.PublicKey(append([]byte(nil), point...)), nil
	case algRSA1024, algRSA2048, algRSA3072, algRSA4096:
		n, _ := fields.get(0x81)
		e, _ := fields.get(0x82)
		k := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
		if len(e) > 4 || k.E < 3 || k.E&1 == 0 || k.N.BitLen() < 1024 || k.N.BitLen() > 4096 || k.N.Bit(0) == 0 {
			return nil, nonsense{errTLV}
		}
		return k, nil
	}
	return nil, fmt.Errorf("%w: unknown algorithm %02x", hsm.ErrUnsupported, alg)
}

// attestedKey reads what an attestation certificate says of a key (Yubico, "PIV
// attestation": 1.3.6.1.4.1.41482.3.8 is PIN and touch policy). It is the card's
// own word here; hsm/attest is what verifies it.
func attestedKey(der []byte) (*hsm.Key, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nonsense{err}
	}
	k := &hsm.Key{Algorithm: hsm.AlgorithmOf(cert.PublicKey), Public: cert.PublicKey, Origin: hsm.Generated}
	if v := extension(cert.Extensions, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, 8}); len(v) == 2 {
		k.PIN, k.Touch = pinPolicy(v[0]), touchPolicy(v[1])
	}
	return k, nil
}

func extension(all []pkix.Extension, id asn1.ObjectIdentifier) []byte {
	for _, e := range all {
		if e.Id.Equal(id) {
			return e.Value
		}
	}
	return nil
}
