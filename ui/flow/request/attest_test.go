package request

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
)

// maker makes devices that attest: a root, and one device's key.
type maker struct {
	t            *testing.T
	root, device *x509.Certificate
	key          *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newMaker(t *testing.T) *maker {
	root, device := newKey(t), newKey(t)
	m := &maker{t: t, key: device}
	ca := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}
	}
	m.root = m.sign(ca("Test Root"), ca("Test Root"), root, root)
	m.device = m.sign(ca("Test Device"), m.root, device, root)
	return m
}

func (m *maker) sign(c, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	m.t.Helper()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// attest states that key was generated, with PIN policy once and touch policy always.
func (m *maker) attest(key *ecdsa.PrivateKey) hsm.Attestation {
	policy := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, 8}, Value: []byte{2, 2}}
	firmware := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 41482, 3, 3}, Value: []byte{5, 7, 1}}
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "YubiKey PIV Attestation 9a"},
		ExtraExtensions: []pkix.Extension{firmware, policy}}
	return hsm.Attestation{Statement: m.sign(c, m.device, key, m.key).Raw, Intermediate: m.device.Raw}
}

// TestJudge: what an approver is told of the attestation in a request. A
// genuine one of somebody else's key must not pass.
func TestJudge(t *testing.T) {
	b, err := os.ReadFile("../../../hsm/attest/testdata/yubikey5.pem")
	if err != nil {
		t.Fatal(err)
	}
	genuine, err := attest.DecodePEM(b)
	if err != nil {
		t.Fatal(err)
	}
	m, key := newMaker(t), newKey(t)
	ours := attest.Verifier{Roots: []*x509.Certificate{m.root}}
	for name, tc := range map[string]struct {
		carries       []pkix.Extension
		by            attest.Verifier
		says, warning string
	}{
		"none":          {nil, ours, "none: ", ""},
		"verified":      {attest.Extensions(m.attest(key)), ours, "verified to Test Root: generated on YubiKey", ""},
		"unknown maker": {attest.Extensions(m.attest(key)), attest.Verifier{}, "present, not verified", "not traced to a trusted maker"},
		"of another":    {attest.Extensions(m.attest(newKey(t))), ours, "present, not verified", "is for another key"},
		"borrowed":      {attest.Extensions(genuine), attest.Verifier{}, "present, not verified", "is for another key"},
		"half":          {attest.Extensions(genuine)[:1], attest.Verifier{}, "present, not verified", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			pkcs10, err := csr.NewRequest(key, csr.Subject{User: "jane"}, csr.RequestOptions{ExtraExtensions: tc.carries})
			if err != nil {
				t.Fatal(err)
			}
			v := ViewOf(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: pkcs10, Username: "jane"}})
			v.judge(tc.by)
			warnings := strings.Join(v.Warnings, "\n")
			if !strings.HasPrefix(v.Attestation, tc.says) || !strings.Contains(warnings, tc.warning) ||
				(tc.warning == "") != (warnings == "") || v.Attested != (name == "verified") {
				t.Errorf("attestation %q, attested %t, warnings %q", v.Attestation, v.Attested, warnings)
			}
		})
	}
}
