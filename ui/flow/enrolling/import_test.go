package enrolling

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestImport: the certificate that an admin sends becomes the unfinished enrollment's. One that does
// not fit it changes nothing.
func TestImport(t *testing.T) {
	e, s := store(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	issue := func(key *ecdsa.PrivateKey, end time.Duration) []byte {
		t.Helper()
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"},
			NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(end),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		must.OK(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	j := begun("prod")
	if j.Request.KeyHash, err = hsm.Fingerprint(&key.PublicKey); err != nil {
		t.Fatal(err)
	}
	must.OK(t, s.Save(j))
	for name, c := range map[string]struct {
		enrollment string
		text       []byte
		want       error
		hint       string
	}{
		"no PEM":        {"prod", []byte("x"), nil, "give a PEM file"},
		"another key":   {"prod", issue(other, time.Hour), hsm.ErrKeyMismatch, "the request that this enrollment made"},
		"expired":       {"prod", issue(key, -time.Hour), csr.ErrWrongCertificate, ""},
		"no enrollment": {"none", issue(key, time.Hour), fs.ErrNotExist, ""},
	} {
		_, err := Import(t.Context(), e, c.enrollment, c.text)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(hinting.Of(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
		if now, err := s.Load("prod"); err != nil || now.Certificate != nil {
			t.Errorf("%s: %+v, %v", name, now, err)
		}
	}
	own := issue(key, time.Hour)
	if _, err := Import(t.Context(), e, "prod", own); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Load("prod"); err != nil || string(now.Certificate) != string(own) {
		t.Errorf("%+v, %v", now, err)
	}
}
