//go:build cgo || windows

package piv

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestOnlyACertificate: a card that knows nothing of Yubico's extensions is
// used by what its certificates say.
func TestOnlyACertificate(t *testing.T) {
	guid := [16]byte{1, 15: 2}
	r := newRig(t, vcard.Config{Without: vcard.Serial | vcard.Version | vcard.Metadata | vcard.Attestation | vcard.Move,
		CHUID: &guid})
	for _, slot := range []byte{0x9a, 0x9e} {
		k := newP256(t)
		pin := byte(2)
		if slot == 0x9e {
			pin = 1
		}
		r.card.SetKey(slot, k, pin, 1)
		cert, err := hsmtest.Certify(k, "test")
		must.OK(t, err)
		r.place(slot, cert.Raw)
	}
	got, err := r.tok.Slot(t.Context(), hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"})
	must.OK(t, err)
	if k := got.Key; k == nil || k.Origin != "" || k.PIN != hsm.PINDefault || k.Touch != hsm.TouchDefault {
		t.Fatalf("%+v", got.Key)
	}
	// The PIN once, for the slot that wants it; a touch may be awaited.
	must.OK(t, sign(r.signer(t, "9e", hsmtest.NewScript(t))))
	p := hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN))
	s := r.signer(t, "9a", p)
	must.OK(t, sign(s))
	must.OK(t, sign(s))
	r.forgotten(t, "after signing")

	// Another key under the same certificate gives itself away.
	r.card.SetKey(0x9a, newP256(t), 2, 1)
	want(t, sign(s), hsm.ErrKeyMismatch)

	_, err = r.tok.Attest(t.Context(), got.URI)
	want(t, err, hsm.ErrUnsupported)
	_, err = r.tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9a"}, typing(t))
	want(t, err, hsm.ErrOccupied)
	want(t, r.tok.Delete(t.Context(), got.URI, typing(t)), hsm.ErrUnsupported)
	d, err := r.tok.Details(t.Context())
	must.OK(t, err)
	if d.PIN == nil || d.PIN.Left != 3 || d.PUK != nil || d.IdentityFrom != applet.FromGUID {
		t.Errorf("%+v", d)
	}
}

// TestLongAnswers: answers that come in parts, and commands that go in parts.
func TestLongAnswers(t *testing.T) {
	r := newRig(t, vcard.Config{})
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	if !r.card.SetKey(0x9a, k, 2, 1) {
		t.Fatal("no such key")
	}
	must.OK(t, sign(r.signer(t, "9a", typing(t))))
	cert := r.certify(t, "9a")
	got, err := r.tok.Slot(t.Context(), hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"})
	must.OK(t, err)
	if !got.CertificateMatches() || !got.Certificate.Equal(cert) || got.Key.Origin != hsm.Imported ||
		got.Key.Algorithm != hsm.RSA2048 {
		t.Errorf("%+v", got.Key)
	}
	r.card.Fail(vcard.Fault{INS: vcard.INSPutData, SW: 0x6a84, Times: 1})
	must.OK(t, r.tok.StoreCertificate(t.Context(), got.URI, cert, typing(t))) // The card has the certificate already.
	r.card.SetObject(0x5fc105, nil)
	r.card.Fail(vcard.Fault{INS: vcard.INSPutData, SW: 0x6a84, Times: 1})
	err = r.tok.StoreCertificate(t.Context(), got.URI, cert, typing(t))
	if err == nil || hint.Of(err) == "" {
		t.Errorf("a full card: %v", err)
	}
}

// TestKeyWithoutDescription: a key that the card does not describe further than by its origin
// stays where it is, also on a card that answers for empty slots with policies.
func TestKeyWithoutDescription(t *testing.T) {
	r := newRig(t, vcard.Config{EmptyPolicies: true})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	ref := byte(0x9c)
	r.card.Fail(vcard.Fault{INS: vcard.INSGetMetadata, P2: &ref, SW: 0x9000, Data: []byte{0x02, 2, 2, 1, 0x03, 1, 1}})
	if _, err := r.tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9c"}, typing(t)); err == nil {
		t.Error("a key with an origin was written over")
	}
	for _, e := range r.card.Log() {
		if e.INS == vcard.INSGenerate && e.P2 == ref {
			t.Errorf("the card was told to make a key: %+v", e)
		}
	}
}
