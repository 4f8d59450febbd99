package attest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

func load(t testing.TB, name string) hsm.Attestation {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	must.OK(t, err)
	a, err := DecodePEM(b)
	must.OK(t, err)
	return a
}

// TestGenuine verifies what real devices said to Yubico's roots. The second is
// of 2018: signed by the U2F root, and without basic constraints.
func TestGenuine(t *testing.T) {
	for name, want := range map[string]struct{ text, root string }{
		"yubikey5.pem": {"generated on YubiKey 5C Nano 15732500, firmware 5.4.3, PIN once, touch never", "Yubico PIV Root CA Serial 263751"},
		"yubikey4.pem": {"generated on YubiKey 4, firmware 4.3.7, PIN once, touch never", "Yubico U2F Root CA Serial 457200631"},
	} {
		s, err := Verifier{}.Verify(load(t, name), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Slot != "9a" || s.Root != want.root || s.Algorithm != hsm.ECDSAP256 {
			t.Errorf("%s: %+v", name, s)
		}
		if s.String() != want.text {
			t.Errorf("%s: %q, want %q", name, s, want.text)
		}
	}
}

func TestRefused(t *testing.T) {
	five, four := load(t, "yubikey5.pem"), load(t, "yubikey4.pem")
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	mine := newMaker(t)
	for name, c := range map[string]struct {
		a    hsm.Attestation
		key  crypto.PublicKey
		v    Verifier
		want error
	}{
		"another device":   {hsm.Attestation{Statement: five.Statement, Intermediate: four.Intermediate}, nil, Verifier{}, ErrUnknownIssuer},
		"the other way":    {hsm.Attestation{Statement: four.Statement, Intermediate: five.Intermediate}, nil, Verifier{}, ErrUnknownIssuer},
		"exchanged":        {hsm.Attestation{Statement: five.Intermediate, Intermediate: five.Statement}, nil, Verifier{}, ErrMalformed},
		"own issuer":       {hsm.Attestation{Statement: five.Statement, Intermediate: five.Statement}, nil, Verifier{}, ErrUnknownIssuer},
		"another key":      {five, other.Public(), Verifier{}, ErrOtherKey},
		"other roots":      {five, nil, Verifier{Roots: []*x509.Certificate{mine.root}}, ErrUnknownIssuer},
		"unknown maker":    {mine.attest(t, other.Public()), nil, Verifier{}, ErrUnknownIssuer},
		"not DER":          {hsm.Attestation{Statement: []byte("nonsense"), Intermediate: five.Intermediate}, nil, Verifier{}, ErrMalformed},
		"no issuer":        {hsm.Attestation{Statement: five.Statement}, nil, Verifier{}, ErrMalformed},
		"long ago":         {five, nil, Verifier{Now: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)}, ErrUnknownIssuer},
		"nothing attested": {hsm.Attestation{Statement: mine.root.Raw, Intermediate: mine.root.Raw}, nil, Verifier{}, ErrMalformed},
	} {
		s, err := c.v.Verify(c.a, c.key)
		if !errors.Is(err, c.want) || s.Root != "" {
			t.Errorf("%s: %v, root %q; want %v", name, err, s.Root, c.want)
		}
	}
	s, err := Verifier{Roots: []*x509.Certificate{mine.root}}.Verify(mine.attest(t, other.Public()), other.Public())
	if err != nil || s.Root != "Test Root" {
		t.Errorf("injected root: %+v, %v", s, err)
	}
}

// TestLongKey: no signature is checked by a key that the owner of a device makes up, and that is so long that the check
// would take seconds.
func TestLongKey(t *testing.T) {
	m := newMaker(t)
	n := new(big.Int).Lsh(big.NewInt(1), maxRSABits)
	long := sign(t, &x509.Certificate{SerialNumber: big.NewInt(3), NotAfter: time.Now().Add(time.Hour)}, m.device,
		&rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}, m.key)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	_, err = Verifier{}.Verify(hsm.Attestation{Statement: m.attest(t, k.Public()).Statement, Intermediate: long.Raw}, nil)
	if !errors.Is(err, ErrUnknownIssuer) || !strings.Contains(err.Error(), "8193 bits") {
		t.Errorf("a key of 8193 bits: %v", err)
	}
}

// TestForgedByAttestedKey: the owner of a device cannot use a key that it
// attests as if it were the attestation key.
func TestForgedByAttestedKey(t *testing.T) {
	m := newMaker(t)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	honest, err := x509.ParseCertificate(m.attest(t, k.Public()).Statement)
	must.OK(t, err)
	soft, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	forged := sign(t, statement(), honest, soft.Public(), k)
	_, err = Verifier{Roots: []*x509.Certificate{m.root, m.device}}.Verify(hsm.Attestation{Statement: forged.Raw,
		Intermediate: honest.Raw}, nil)
	if !errors.Is(err, ErrUnknownIssuer) {
		t.Errorf("a forged attestation: %v", err)
	}
}

// TestInsideRequest carries an attestation through a PKCS#10 request.
func TestInsideRequest(t *testing.T) {
	m := newMaker(t)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	a := m.attest(t, k.Public())
	req, err := csr.NewRequest(k, csr.Subject{User: "jane"}, csr.RequestOptions{ExtraExtensions: Extensions(a)})
	must.OK(t, err)
	info, err := csr.InspectRequest(req)
	must.OK(t, err)
	got, err := FromExtensions(info.Extensions)
	must.OK(t, err)
	s, err := Verifier{Roots: []*x509.Certificate{m.root}}.Verify(got, info.PublicKey)
	if err != nil || s.Serial != "4711" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestFromExtensions(t *testing.T) {
	a := load(t, "yubikey5.pem")
	old := []pkix.Extension{{Id: oid(oidStatementOld), Value: a.Statement},
		{Id: oid(oidIntermediate), Value: a.Intermediate}}
	if got, err := FromExtensions(old); err != nil || string(got.Statement) != string(a.Statement) {
		t.Errorf("yubico-piv-tool's older form: %v", err)
	}
	if _, err := FromExtensions(nil); !errors.Is(err, ErrNone) {
		t.Errorf("none: %v", err)
	}
	if _, err := FromExtensions(Extensions(a)[:1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("half: %v", err)
	}
	back, err := DecodePEM(EncodePEM(hsm.Attestation{Statement: a.Intermediate, Intermediate: a.Statement}))
	if err != nil || string(back.Statement) != string(a.Statement) {
		t.Errorf("PEM in the other order: %v", err)
	}
}

// maker is a maker of devices, with one device.
type maker struct {
	root, device *x509.Certificate
	key          *ecdsa.PrivateKey // the device's
}

func newMaker(t *testing.T) maker {
	t.Helper()
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	deviceKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour),
			NotAfter:  time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true}
	}
	root := sign(t, ca("Test Root"), nil, rootKey.Public(), rootKey)
	return maker{root, sign(t, ca("Test Device"), root, deviceKey.Public(), rootKey), deviceKey}
}

func statement() *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: subjectPrefix + "9a"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtraExtensions: []pkix.Extension{
			{Id: oid(oidFirmware), Value: []byte{5, 7, 1}}, {Id: oid(oidPolicy), Value: []byte{2, 2}},
			{Id: oid(oidSerial), Value: func() []byte { b, _ := asn1.Marshal(4711); return b }()}, {Id: oid(oidForm), Value: []byte{0x83}},
		},
	}
}

func (m maker) attest(t *testing.T, key crypto.PublicKey) hsm.Attestation {
	return hsm.Attestation{Statement: sign(t, statement(), m.device, key, m.key).Raw, Intermediate: m.device.Raw}
}

func sign(t *testing.T, template, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return cert
}
