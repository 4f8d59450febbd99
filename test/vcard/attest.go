package vcard

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"
)

// CA issues attestation certificates to cards, in the place of Yubico's.
type CA struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewCA makes a root named name.
func NewCA(name string) (*CA, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := issue(template, template, k.Public(), k)
	return &CA{Certificate: cert, key: k}, err
}

// DefaultCA returns the root of cards that were given none.
func DefaultCA() *CA { return sharedCA() }

var sharedCA = sync.OnceValue(func() *CA {
	ca, err := NewCA("Virtual PIV Root CA")
	if err != nil {
		panic("vcard: " + err.Error())
	}
	return ca
})

func issue(template, parent *x509.Certificate, pub crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// issueAttestation fills slot F9, as the factory does.
func (c *Card) issueAttestation() {
	ca := c.config.CA
	if ca == nil {
		ca = DefaultCA()
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("vcard: " + err.Error())
	}
	cert, err := issue(&x509.Certificate{
		SerialNumber: big.NewInt(int64(c.config.Serial)), Subject: pkix.Name{CommonName: "Virtual PIV Attestation"},
		NotBefore: ca.Certificate.NotBefore, NotAfter: ca.Certificate.NotAfter,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		ExtraExtensions: []pkix.Extension{{Id: oid(3), Value: c.config.Firmware[:]}},
	}, ca.Certificate, k.Public(), ca.key)
	if err != nil {
		panic("vcard: " + err.Error())
	}
	c.keys[slotAttestation] = key{algP256, k, pinOnce, touchNever, originImported}
	c.objects[objectAttestation] = slices.Concat(put(0x70, cert.Raw), put(0x71, []byte{0}), put(0xfe))
}

// oid is an object identifier of Yubico's PIV attestation arc.
func oid(last int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, last}
}

// attest is Yubico's ATTEST: P1 is the slot.
func (c *Card) attest(cmd command) ([]byte, uint16) {
	k, ok := c.keys[cmd.p1]
	signer, able := c.keys[slotAttestation]
	switch {
	case !isSlot(cmd.p1):
		return nil, swWrongP1P2
	case !ok || cmd.p1 == slotAttestation:
		return nil, swReferenceNotFound
	case k.origin != originGenerated:
		return nil, swConditions
	case !able:
		return nil, swNotFound
	}
	parent, err := c.attestationCertificate()
	if err != nil {
		return nil, swNotFound
	}
	extensions := []pkix.Extension{
		{Id: oid(3), Value: c.config.Firmware[:]},
		{Id: oid(8), Value: []byte{k.pin, k.touch}},
		{Id: oid(9), Value: []byte{byte(c.config.FormFactor)}},
	}
	if c.has(Serial) {
		serial, err := asn1.Marshal(int64(c.config.Serial))
		if err != nil {
			return nil, 0x6f00
		}
		extensions = append(extensions, pkix.Extension{Id: oid(7), Value: serial})
	}
	cert, err := issue(&x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(random(16)), Subject: pkix.Name{CommonName: fmt.Sprintf("YubiKey PIV Attestation %x", cmd.p1)},
		NotBefore: parent.NotBefore, NotAfter: parent.NotAfter, ExtraExtensions: extensions,
	}, parent, publicOf(k.private), signer.private.(crypto.Signer))
	if err != nil {
		return nil, 0x6f00
	}
	if c.config.Ways.AttestsText {
		return []byte("attested"), swOK
	}
	return cert.Raw, swOK
}

func (c *Card) attestationCertificate() (*x509.Certificate, error) {
	objects, err := parseTLV(c.objects[objectAttestation])
	if err != nil {
		return nil, err
	}
	der, _ := find(objects, 0x70)
	return x509.ParseCertificate(der)
}
