package flowtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// Maker makes devices that attest their keys, as Yubico's do.
type Maker struct {
	// Root is what the attestations are traced to.
	Root *x509.Certificate

	t      testing.TB
	device *x509.Certificate
	key    *ecdsa.PrivateKey
}

// NewKey returns a P-256 key.
func (m *Maker) NewKey() *ecdsa.PrivateKey {
	m.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(m.t, err)
	return k
}

// NewMaker returns one with keys of its own.
func NewMaker(t testing.TB) *Maker {
	m := &Maker{t: t}
	root := m.NewKey()
	m.key = m.NewKey()
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}
	}
	m.Root = m.Sign(ca("Test Root"), ca("Test Root"), root, root)
	m.device = m.Sign(ca("Test Device"), m.Root, m.key, root)
	return m
}

// Sign signs c with the key by of parent; it is good for an hour before and after now.
func (m *Maker) Sign(c, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	m.t.Helper()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	must.OK(m.t, err)
	out, err := x509.ParseCertificate(der)
	must.OK(m.t, err)
	return out
}

// Attest states that key was generated in the token with that serial number, which must be small.
func (m *Maker) Attest(key *ecdsa.PrivateKey, serial byte) hsm.Attestation {
	extension := func(last int, value ...byte) pkix.Extension {
		return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, last}, Value: value}
	}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "YubiKey PIV Attestation 9a"},
		ExtraExtensions: []pkix.Extension{extension(3, 5, 7, 1), extension(7, 2, 1, serial), extension(8, 2, 2)}}
	return hsm.Attestation{Statement: m.Sign(c, m.device, key, m.key).Raw, Intermediate: m.device.Raw}
}
