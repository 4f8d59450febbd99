package hsmtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

func testGenerate(t *testing.T, b *bench) {
	tok := b.open(t)
	for _, a := range b.Algorithms {
		t.Run(string(a), func(t *testing.T) {
			slot := b.generate(t, tok, a)
			if slot.Key.Algorithm != a || hsm.AlgorithmOf(slot.Key.Public) != a {
				t.Errorf("algorithm %s, key %s; want %s", slot.Key.Algorithm, hsm.AlgorithmOf(slot.Key.Public), a)
			}
			if slot.Key.Extractable || slot.Key.Origin != hsm.Generated { // A key that was just made is known.
				t.Errorf("extractable %v, origin %q", slot.Key.Extractable, slot.Key.Origin)
			}
			if slot.Certificate != nil {
				t.Error("a new key has a certificate")
			}
			parsed, err := hsm.ParseURI(slot.URI.String())
			if err != nil {
				t.Fatalf("its URI %s: %v", slot.URI, err)
			}
			got, err := tok.Slot(t.Context(), parsed)
			if err != nil {
				t.Fatalf("slot %s: %v", parsed, err)
			}
			if got.ID != slot.ID || got.Key == nil || !hsm.SameKey(got.Key.Public, slot.Key.Public) {
				t.Errorf("%s is %+v, want %+v", parsed, got, slot)
			}
			listed := find(t, slots(t, tok, nil), slot.Key.Public)
			if listed.ID != slot.ID || listed.Problem != "" || listed.Key.Extractable ||
				listed.Key.Origin != hsm.Generated && !b.NoOrigin {
				t.Errorf("listed as %+v, %+v", listed, listed.Key)
			}
		})
	}
}

func testGenerateRefuses(t *testing.T, b *bench) {
	tok := b.open(t)
	o := b.options(t, "dsa-1024")
	if _, err := tok.Generate(t.Context(), o, b.typing(t)); err == nil {
		t.Error("generated an unknown algorithm")
	}
	if b.NoGuessing && b.Slots != nil && len(b.Others) == 0 {
		return // somebody's card that finds its management key by itself: nobody is asked
	}
	o = b.options(t, b.Algorithms[0])
	_, err := tok.Generate(t.Context(), o, NewScript(t, Cancel()))
	wantErr(t, err, hsm.ErrCancelled)
	if n := len(holding(slots(t, tok, b.typing(t)))); n != 0 {
		t.Errorf("refused keys left %d behind", n)
	}
}

func testOccupied(t *testing.T, b *bench) {
	tok := b.open(t)
	o := b.options(t, b.Algorithms[0])
	first, err := tok.Generate(t.Context(), o, b.typing(t))
	must.OK(t, err)
	second, err := tok.Generate(t.Context(), o, b.typing(t))
	if b.Slots == nil { // places of its own: never occupied
		if err != nil || second.ID == first.ID {
			t.Fatalf("a second key: %v, id %s after %s", err, second.ID, first.ID)
		}
		find(t, slots(t, tok, nil), first.Key.Public)
		return
	}
	wantErr(t, err, hsm.ErrOccupied)
	find(t, slots(t, tok, nil), first.Key.Public)
	o.Overwrite = true
	second, err = tok.Generate(t.Context(), o, b.typing(t))
	if err != nil {
		t.Fatalf("overwrite: %v", err)
	}
	if hsm.SameKey(first.Key.Public, second.Key.Public) {
		t.Error("overwriting made no new key")
	}
}

func testNotExtractable(t *testing.T, b *bench) {
	tok := b.open(t)
	for _, a := range b.Algorithms {
		t.Run(string(a), func(t *testing.T) { b.Extract(t, b.generate(t, tok, a)) })
	}
}

func testSlotsWithoutPIN(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	cert := slot.Certificate
	if !b.ReadOnly {
		cert = certify(t, b.signer(t, tok, slot, b.typing(t)), "first")
		must.OK(t, tok.StoreCertificate(t.Context(), slot.URI, cert, b.typing(t)))
	}
	lock(t, tok)
	tries := b.tries()
	for range 5 {
		got := find(t, slots(t, tok, NewScript(t)), slot.Key.Public)
		if !sameCertificate(got.Certificate, cert) || !got.CertificateMatches() {
			t.Fatal("the certificate is not listed with its key")
		}
		if got.ID != slot.ID {
			t.Errorf("id %s, want %s", got.ID, slot.ID)
		}
	}
	if tok.Unlocked() {
		t.Error("listing unlocked the token")
	}
	b.wantTries(t, tries)
}

func testSlotLookup(t *testing.T, b *bench) {
	tok := b.open(t)
	one := b.generate(t, tok, b.Algorithms[0])
	two := b.generate(t, tok, b.Algorithms[0])
	for _, s := range []hsm.Slot{one, two} {
		got, err := tok.Slot(t.Context(), s.URI)
		if err != nil || got.ID != s.ID {
			t.Errorf("%s is %q, %v", s.URI, got.ID, err)
		}
	}
	_, err := tok.Slot(t.Context(), one.URI.TokenOnly())
	wantErr(t, err, hsm.ErrSeveralKeys)
}

func testWantedKey(t *testing.T, b *bench) {
	tok := b.open(t)
	one := b.generate(t, tok, b.Algorithms[0])
	two := b.generate(t, tok, b.Algorithms[0])
	_, err := tok.Signer(t.Context(), one.URI, two.Key.Public, b.typing(t))
	wantErr(t, err, hsm.ErrKeyMismatch)
	signOne(t, b.signer(t, tok, one, b.typing(t)))

	// The key in the slot is checked again before every signature.
	if b.Slots == nil || b.ReadOnly {
		return
	}
	sign := b.signer(t, tok, one, b.typing(t))
	o := hsm.GenerateOptions{Slot: one.ID, Algorithm: b.Algorithms[0], Overwrite: true}
	if _, err := tok.Generate(t.Context(), o, b.typing(t)); err != nil {
		t.Fatal(err)
	}
	_, err = trySign(sign)
	wantErr(t, err, hsm.ErrKeyMismatch)
}

func testCertificate(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	sign := b.signer(t, tok, slot, b.typing(t))
	for _, name := range []string{"first", "second", "second"} {
		cert := certify(t, sign, name)
		for range 2 { // storing the same again changes nothing
			if err := tok.StoreCertificate(t.Context(), slot.URI, cert, b.typing(t)); err != nil {
				t.Fatalf("store %s: %v", name, err)
			}
		}
		got, err := tok.Slot(t.Context(), slot.URI)
		if err != nil {
			t.Fatalf("slot after storing: %v", err)
		}
		if !sameCertificate(got.Certificate, cert) || !got.CertificateMatches() {
			t.Fatalf("%s is not beside its key", name)
		}
		if n := len(slots(t, tok, nil)); n != 1 {
			t.Fatalf("%d slots, want 1", n)
		}
	}
	signOne(t, sign)
}

func testCertificateMismatch(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	err = tok.StoreCertificate(t.Context(), slot.URI, certify(t, other, "other"), b.typing(t))
	wantErr(t, err, hsm.ErrKeyMismatch)
	got, err := tok.Slot(t.Context(), slot.URI)
	if err != nil || got.Certificate != nil {
		t.Errorf("a refused certificate was stored: %v, %v", got.Certificate != nil, err)
	}
}

func testDelete(t *testing.T, b *bench) {
	tok := b.open(t)
	gone, kept := b.generate(t, tok, b.Algorithms[0]), b.generate(t, tok, b.Algorithms[0])
	cert := certify(t, b.signer(t, tok, gone, b.typing(t)), "gone")
	must.OK(t, tok.StoreCertificate(t.Context(), gone.URI, cert, b.typing(t)))
	lock(t, tok)
	err := tok.Delete(t.Context(), gone.URI, b.typing(t))
	if b.NoDelete {
		wantErr(t, err, hsm.ErrUnsupported)
		if left := find(t, slots(t, tok, nil), gone.Key.Public); !sameCertificate(left.Certificate, cert) {
			t.Error("the certificate was removed though the key stays")
		}
		return
	}
	must.OK(t, err)
	for _, s := range slots(t, tok, b.typing(t)) {
		if s.ID == gone.ID && (s.Key != nil || s.Certificate != nil) {
			t.Errorf("left behind: key %v, certificate %v", s.Key != nil, s.Certificate != nil)
		}
	}
	signOne(t, b.signer(t, tok, kept, b.typing(t)))
	wantErr(t, tok.Delete(t.Context(), gone.URI, b.typing(t)), hsm.ErrNoKey)
}
