package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

// keyWithCertificate generates a key on the token and issues a certificate for it.
func (b *bench) keyWithCertificate() (hsm.Slot, string) {
	b.t.Helper()
	b.ask = hsmtest.Typing(b.t, testPIN)
	token, err := b.fake.Open(b.t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "trial"})
	must.OK(b.t, err)
	slot, err := token.Generate(b.t.Context(), hsm.GenerateOptions{Label: "prod"}, b.ask)
	must.OK(b.t, err)
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(b.t, err)
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: "test CA"}}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(0xabc), Subject: pkix.Name{CommonName: "jane", Organization: []string{"dev\x1b[2J"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, issuer, slot.Key.Public, ca)
	must.OK(b.t, err)
	path := filepath.Join(b.home, "jane.pem")
	must.OK(b.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return slot, path
}

// store stores the certificate in a file beside its key on the token.
func (b *bench) store(slot hsm.Slot, file string) {
	b.t.Helper()
	cert, err := csr.ParseCertificate([]byte(b.read(file)))
	must.OK(b.t, err)
	token, err := b.fake.Open(b.t.Context(), slot.URI)
	if err == nil {
		err = token.StoreCertificate(b.t.Context(), slot.URI, cert.Leaf, b.ask)
	}
	must.OK(b.t, err)
}

func TestCertificateShow(t *testing.T) {
	b := newBench(t)
	slot, file := b.keyWithCertificate()
	key := slot.URI.String()
	b.fails(1, "nothing is enrolled yet", "certificate", "show")
	b.fails(1, hsm.ErrNoCertificate.Error(), "certificate", "show", "--key", key)
	b.store(slot, file)
	doc := document(t, b.ok("certificate", "show", "--key", key, "-o", "json"))
	if doc["user"] != "jane" || doc["serial"] != "abc" || doc["issuer"] != "CN=test CA" ||
		doc["algorithm"] != "ecdsa-p256" ||
		!strings.HasPrefix(doc["pem"].(string), "-----BEGIN CERTIFICATE-----") {
		t.Errorf("%v", doc)
	}
	want, err := hsm.Fingerprint(slot.Key.Public)
	if err != nil || doc["keyFingerprint"] != want {
		t.Errorf("key fingerprint %v, want %s (%v)", doc["keyFingerprint"], want, err)
	}
	if out := b.ok("certificate", "show", "-f", file); !strings.Contains(out, `dev\x1b[2J`) ||
		!strings.Contains(out, "Until:") {
		t.Errorf("%s", out)
	}
	b.stdin = b.read(file)
	if out := b.ok("certificate", "show", "-f", "-", "-o", "pem"); out != b.stdin {
		t.Errorf("%q", out)
	}
	if out := b.ok("key", "list"); !strings.Contains(out, "   jane   ") {
		t.Errorf("%s", out)
	}
}
