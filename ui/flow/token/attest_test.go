package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// attesting is a driver whose card answers with the attestation of a real one.
type attesting struct {
	hsm.Driver
	says hsm.Attestation
	own  bool // the attestation is of the key in the slot, not of another key
}

func (a attesting) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	t, err := a.Driver.Open(ctx, u)
	return attestingToken{t, a}, err
}

type attestingToken struct {
	hsm.Token
	attesting
}

func (t attestingToken) Info(ctx context.Context) (hsm.TokenInfo, error) {
	info, err := t.Token.Info(ctx)
	info.Can.Attest = true
	return info, err
}

func (t attestingToken) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	s, err := t.Token.Slot(ctx, u)
	if err == nil && t.own {
		var cert *x509.Certificate
		cert, err = x509.ParseCertificate(t.says.Statement)
		s.Key.Public = cert.PublicKey
	}
	return s, err
}

func (t attestingToken) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	_, err := t.Token.Slot(ctx, u) // the card may be gone
	return t.says, err
}

// genuine is what a real card said of a key.
func genuine(t testing.TB) (hsm.Attestation, any) {
	t.Helper()
	text, err := os.ReadFile("../../../hsm/attest/testdata/yubikey5.pem")
	must.OK(t, err)
	a, err := attest.DecodePEM(text)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(a.Statement)
	must.OK(t, err)
	return a, cert.PublicKey
}

// TestAttest: what a card says of a key is checked for that key and by the maker's roots.
func TestAttest(t *testing.T) {
	says, _ := genuine(t)
	for _, own := range []bool{true, false} {
		flowtest.UseCase{Name: map[bool]string{true: "own", false: "another key's"}[own],
			World: func(t testing.TB) *flowtest.World {
				w := card(t)
				w.Env.Drivers[0] = attesting{w.Env.Drivers[0], says, own}
				return w
			},
			Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
				a, err := Keys{w.Env}.Attest(ctx, at(w, "9a"), nil)
				if err == nil && (!a.Checked || own != (a.Err == nil) || !own && !errors.Is(a.Err, attest.ErrOtherKey)) {
					err = a.Err
				}
				return err
			}}.Try(t)
	}
	w := card(t)
	w.Env.Drivers[0] = attesting{w.Env.Drivers[0], says, true}
	if _, err := (Keys{w.Env}).Attest(t.Context(), at(w, "9e"), nil); !errors.Is(err, hsm.ErrNoKey) {
		t.Errorf("of no key: %v", err)
	}
}

// TestVerifyAttestation: the verdict on what somebody sent, with and without the key
// that it should be for.
func TestVerifyAttestation(t *testing.T) {
	says, attested := genuine(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	file := attest.EncodePEM(says)
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{ExtraExtensions: attest.Extensions(says)}, other)
	must.OK(t, err)
	foreign := pem.EncodeToMemory(&pem.Block{Type: "NEW CERTIFICATE REQUEST", Bytes: der})
	for name, c := range map[string]struct {
		data    []byte
		key     any
		want    string // part of the verdict's error; "" for a good verdict
		checked bool
	}{
		"genuine":                   {data: file},
		"of this key":               {data: file, key: attested, checked: true},
		"of another key":            {data: file, key: other.Public(), checked: true, want: attest.ErrOtherKey.Error()},
		"in another key's request":  {data: foreign, checked: true, want: attest.ErrOtherKey.Error()},
		"nothing":                   {data: []byte("x"), want: attest.ErrMalformed.Error()},
		"a request that is damaged": {data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der[:40]}), want: "asn1"},
	} {
		a := VerifyAttestation(c.data, c.key, nil)
		if (a.Err == nil) != (c.want == "") || a.Err != nil && !strings.Contains(a.Err.Error(), c.want) ||
			a.Checked != c.checked {
			t.Errorf("%s: %v, checked %v", name, a.Err, a.Checked)
		}
	}
}

// TestPublicKey: the public key is found in a certificate, a request or a public key in PEM.
func TestPublicKey(t *testing.T) {
	w := card(t)
	key := loss(t, w, "9a").Slots[0].Key.Public
	public, err := x509.MarshalPKIXPublicKey(key)
	must.OK(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, other)
	must.OK(t, err)
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for name, c := range map[string]struct {
		data []byte
		want any
	}{
		"certificate": {block("CERTIFICATE", certify(t, w).Raw), key}, "public key": {block("PUBLIC KEY", public), key}, "request": {block("CERTIFICATE REQUEST", request), other.Public()},
		"damaged certificate": {block("CERTIFICATE", public), nil}, "damaged request": {block("CERTIFICATE REQUEST", public), nil},
		"private key": {block("EC PRIVATE KEY", public), nil},
	} {
		got, err := PublicKey(c.data)
		if (err == nil) != (c.want != nil) || err == nil && !hsm.SameKey(got, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := PublicKey([]byte("x")); err == nil || !strings.Contains(hinting.Of(err), "in PEM") {
		t.Errorf("no PEM: %v", err)
	}
}
