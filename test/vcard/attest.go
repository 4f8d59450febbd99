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

	"github.com/kubehsm/kubehsm/hsm"
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

// Device attests keys as a card of firmware 5.7.1 does, without being one: thousands fit into a test.
type Device struct {
	serial      uint32
	firmware    [3]byte
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewDevice makes one that the CA certifies.
func (ca *CA) NewDevice(serial uint32) (*Device, error) { return ca.device(serial, [3]byte{5, 7, 1}) }

func (ca *CA) device(serial uint32, firmware [3]byte) (*Device, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := issue(&x509.Certificate{
		SerialNumber: big.NewInt(int64(serial)), Subject: pkix.Name{CommonName: "Virtual PIV Attestation"},
		NotBefore: ca.Certificate.NotBefore, NotAfter: ca.Certificate.NotAfter,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		ExtraExtensions: []pkix.Extension{{Id: oid(3), Value: firmware[:]}},
	}, ca.Certificate, k.Public(), ca.key)
	return &Device{serial, firmware, cert, k}, err
}

// Attest states that the key was made in the device, with these policies.
func (d *Device) Attest(key crypto.PublicKey, pin hsm.PINPolicy, touch hsm.TouchPolicy) (hsm.Attestation, error) {
	policies := []byte{map[hsm.PINPolicy]byte{hsm.PINNever: pinNever, hsm.PINOnce: pinOnce, hsm.PINAlways: pinAlways}[pin],
		map[hsm.TouchPolicy]byte{hsm.TouchNever: touchNever, hsm.TouchAlways: touchAlways, hsm.TouchCached: touchCached}[touch]}
	cert, err := d.attest(0x9a, key, policies, true)
	if err != nil {
		return hsm.Attestation{}, err
	}
	return hsm.Attestation{Statement: cert.Raw, Intermediate: d.certificate.Raw}, nil
}

// attest issues the statement of a key in a slot, with the device's serial if it tells it.
func (d *Device) attest(slot byte, key crypto.PublicKey, policies []byte, tells bool) (*x509.Certificate, error) {
	extensions := []pkix.Extension{{Id: oid(3), Value: d.firmware[:]}, {Id: oid(8), Value: policies},
		{Id: oid(9), Value: []byte{formFactor}}}
	if tells {
		serial, err := asn1.Marshal(int64(d.serial))
		if err != nil {
			return nil, err
		}
		extensions = append(extensions, pkix.Extension{Id: oid(7), Value: serial})
	}
	return issue(&x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(random(16)), Subject: pkix.Name{CommonName: fmt.Sprintf("YubiKey PIV Attestation %x", slot)},
		NotBefore: d.certificate.NotBefore, NotAfter: d.certificate.NotAfter, ExtraExtensions: extensions,
	}, d.certificate, key, d.key)
}

// oid is an object identifier of Yubico's PIV attestation arc.
func oid(last int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, last}
}

// certify fills slot F9, as the factory does.
func (c *Card) certify() {
	ca := c.config.CA
	if ca == nil {
		ca = DefaultCA()
	}
	d, err := ca.device(c.config.Serial, c.config.Firmware)
	if err != nil {
		panic("vcard: " + err.Error())
	}
	c.device = d
	c.keys[slotAttestation] = key{algP256, d.key, pinOnce, touchNever, originImported}
	c.objects[objectAttestation] = slices.Concat(put(0x70, d.certificate.Raw), put(0x71, []byte{0}), put(0xfe))
}

// attest is Yubico's ATTEST: P1 is the slot.
func (c *Card) attest(cmd command) ([]byte, uint16) {
	k, ok := c.keys[cmd.p1]
	switch {
	case !isSlot(cmd.p1):
		return nil, swWrongP1P2
	case !ok || cmd.p1 == slotAttestation:
		return nil, swReferenceNotFound
	case k.origin != originGenerated:
		return nil, swConditions
	case c.config.Ways.AttestsText:
		return []byte("attested"), swOK
	}
	cert, err := c.device.attest(cmd.p1, publicOf(k.private), []byte{k.pin, k.touch}, c.has(Serial))
	if err != nil {
		return nil, 0x6f00
	}
	return cert.Raw, swOK
}
