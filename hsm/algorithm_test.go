package hsm_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestAlgorithms(t *testing.T) {
	for _, a := range hsm.Algorithms() {
		for _, s := range []string{string(a), strings.ToUpper(string(a))} {
			if got, err := hsm.ParseAlgorithm(s); err != nil || got != a {
				t.Errorf("%s: %s, %v", s, got, err)
			}
		}
		if (a.RSABits() > 0) != strings.HasPrefix(string(a), "rsa") {
			t.Errorf("%s has %d RSA bits", a, a.RSABits())
		}
	}
	for in, want := range map[string]hsm.Algorithm{
		"": hsm.ECDSAP256, "p256": hsm.ECDSAP256, "P-384": hsm.ECDSAP384, "ECCP256": hsm.ECDSAP256, "eccp384": hsm.ECDSAP384,
		"rsa2048": hsm.RSA2048, "RSA_4096": hsm.RSA4096, "Ed25519": hsm.Ed25519,
	} {
		if got, err := hsm.ParseAlgorithm(in); err != nil || got != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for _, bad := range []string{"rsa", "rsa1024", "p521", "ecdsa", "dsa", "-", "x25519"} {
		if got, err := hsm.ParseAlgorithm(bad); err == nil || hint.Of(err) == "" {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
}

func TestAlgorithmOf(t *testing.T) {
	ec := func(c elliptic.Curve) crypto.PublicKey {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		must.OK(t, err)
		return k.Public()
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	edKey, _, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	keys := map[hsm.Algorithm]crypto.PublicKey{
		hsm.ECDSAP256: ec(elliptic.P256()), hsm.ECDSAP384: ec(elliptic.P384()), "ecdsa-p-521": ec(elliptic.P521()),
		hsm.RSA2048: rsaKey.Public(), hsm.Ed25519: edKey,
	}
	prints := map[string]bool{}
	for want, key := range keys {
		if got := hsm.AlgorithmOf(key); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		f, err := hsm.Fingerprint(key)
		if err != nil || len(f) != 64 || prints[f] {
			t.Errorf("fingerprint %q, %v", f, err)
		}
		prints[f] = true
		for other, k := range keys {
			if hsm.SameKey(key, k) != (other == want) {
				t.Errorf("SameKey(%s, %s) = %v", want, other, other != want)
			}
		}
		if hsm.SameKey(key, nil) || hsm.SameKey(nil, key) {
			t.Error("a key equals none")
		}
	}
	if hsm.SameKey(nil, nil) {
		t.Error("nothing is the same key")
	}
	if _, err := hsm.Fingerprint("text"); err == nil {
		t.Error("a fingerprint of text")
	}
}

func TestPolicies(t *testing.T) {
	type record struct {
		P hsm.PINPolicy
		T hsm.TouchPolicy
	}
	for _, r := range []record{{}, {hsm.PINNever, hsm.TouchNever}, {hsm.PINOnce, hsm.TouchCached},
		{hsm.PINAlways, hsm.TouchAlways}} {
		b, err := json.Marshal(r)
		must.OK(t, err)
		var back record
		if err := json.Unmarshal(b, &back); err != nil || back != r {
			t.Errorf("%s: %+v, %v", b, back, err)
		}
	}
	if p, err := hsm.ParsePINPolicy("ONCE"); err != nil || p != hsm.PINOnce {
		t.Error(p, err)
	}
	if p, err := hsm.ParseTouchPolicy(""); err != nil || p != hsm.TouchDefault {
		t.Error(p, err)
	}
	for _, err := range []error{
		json.Unmarshal([]byte(`{"P":"sometimes"}`), new(record)), json.Unmarshal([]byte(`{"T":"once"}`), new(record)),
	} {
		if err == nil || hint.Of(err) == "" {
			t.Errorf("error %v", err)
		}
	}
	if s := hsm.PINPolicy(9).String(); s != "unknown(9)" {
		t.Error(s)
	}
}

func TestDrivers(t *testing.T) {
	piv, p11 := hsmtest.NewFake(hsm.SchemePIV), hsmtest.NewFake(hsm.SchemePKCS11)
	piv.Add(hsmtest.FakeOptions{Serial: "1"})
	p11.Add(hsmtest.FakeOptions{Serial: "2"})
	boom := errors.New("boom")
	piv.SetProblems(hsm.Problem{Source: "reader", Err: boom})
	all := hsm.Drivers{piv, p11}
	l, err := all.List(t.Context())
	if err != nil || len(l.Tokens) != 2 || len(l.Problems) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	tok, err := all.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11})
	must.OK(t, err)
	if info, err := tok.Info(t.Context()); err != nil || info.Serial != "2" {
		t.Errorf("opened %+v, %v", info, err)
	}
	if _, err := (hsm.Drivers{piv}).Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11}); !errors.Is(err,
		hsm.ErrUnavailable) {
		t.Errorf("no such driver: %v", err)
	}
	if err := piv.Close(); err != nil { // fails whole from now on
		t.Fatal(err)
	}
	l, err = all.List(t.Context())
	if err != nil || len(l.Tokens) != 1 || len(l.Problems) != 1 || l.Problems[0].Source != hsm.SchemePIV {
		t.Errorf("with a broken driver: %+v, %v", l, err)
	}
	if err := all.Close(); err != nil {
		t.Error(err)
	}
}
