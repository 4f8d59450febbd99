package vcard

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"

	"github.com/kubehsm/kubehsm/hsm"
)

// Device attests keys as a card does, without being one: thousands fit into a test.
type Device struct {
	serial      uint32
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewDevice makes one that the authority certifies, of firmware 5.7.1.
func (ca *CA) NewDevice(serial uint32) (*Device, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := issue(&x509.Certificate{
		SerialNumber: big.NewInt(int64(serial)), Subject: pkix.Name{CommonName: "Virtual PIV Attestation"},
		NotBefore: ca.Certificate.NotBefore, NotAfter: ca.Certificate.NotAfter,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, ca.Certificate, k.Public(), ca.key)
	return &Device{serial, cert, k}, err
}

// Attest states that the key was made in the device, with these policies.
func (d *Device) Attest(key crypto.PublicKey, pin hsm.PINPolicy, touch hsm.TouchPolicy) (hsm.Attestation, error) {
	serial, err := asn1.Marshal(int64(d.serial))
	if err != nil {
		return hsm.Attestation{}, err
	}
	policy := []byte{map[hsm.PINPolicy]byte{hsm.PINNever: 1, hsm.PINOnce: 2, hsm.PINAlways: 3}[pin],
		map[hsm.TouchPolicy]byte{hsm.TouchNever: 1, hsm.TouchAlways: 2, hsm.TouchCached: 3}[touch]}
	cert, err := issue(&x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(random(16)), Subject: pkix.Name{CommonName: "YubiKey PIV Attestation 9a"},
		NotBefore: d.certificate.NotBefore, NotAfter: d.certificate.NotAfter,
		ExtraExtensions: []pkix.Extension{{Id: oid(3), Value: []byte{5, 7, 1}}, {Id: oid(7), Value: serial},
			{Id: oid(8), Value: policy}, {Id: oid(9), Value: []byte{3}}},
	}, d.certificate, key, d.key)
	if err != nil {
		return hsm.Attestation{}, err
	}
	return hsm.Attestation{Statement: cert.Raw, Intermediate: d.certificate.Raw}, nil
}
