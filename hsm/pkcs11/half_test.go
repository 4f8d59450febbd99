//go:build cgo

package pkcs11

import (
	"errors"
	"slices"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

// objects finds what is left of a class with an id.
func (s spy) objects(t *testing.T, class uint, id []byte) []p11.ObjectHandle {
	t.Helper()
	r := s.reader()
	all := r.find(p11.NewAttribute(p11.CKA_CLASS, class), p11.NewAttribute(p11.CKA_ID, id))
	if r.err != nil {
		t.Fatal(r.err)
	}
	return all
}

// TestHalves: what a killed program leaves at each step of making, deleting and renewing
// is told apart after login, and deleted by itself: a whole key of the same label stays.
func TestHalves(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	defer tok.Close()
	whole := generateKey(t, tok, hsm.GenerateOptions{Label: "prod"})
	for _, c := range []struct {
		name string
		gone []uint // in the order in which they are destroyed
		half hsm.Half
	}{
		{"made without its public key", []uint{p11.CKO_PUBLIC_KEY}, hsm.HalfPrivate},
		{"made and half named", nil, hsm.HalfApart},
		{"deletion after the private key", []uint{p11.CKO_PRIVATE_KEY}, hsm.HalfPublic},
		{"deletion before the certificate", []uint{p11.CKO_PRIVATE_KEY, p11.CKO_PUBLIC_KEY}, hsm.HalfCertificate},
	} {
		slot := generateKey(t, tok, hsm.GenerateOptions{Label: "prod"})
		if c.half == hsm.HalfCertificate {
			signer, err := tok.Signer(t.Context(), slot.URI, nil, hsmtest.Typing(t, testPIN))
			must.OK(t, err)
			cert, err := hsmtest.Certify(signer, "jane")
			must.OK(t, err)
			must.OK(t, tok.StoreCertificate(t.Context(), slot.URI, cert, hsmtest.Typing(t, testPIN)))
		}
		s, id := spyOn(t, soft, testLabel), slot.URI.ID
		if c.half == hsm.HalfApart {
			former := []byte("the id before")
			public := s.objects(t, p11.CKO_PUBLIC_KEY, id)[0]
			must.OK(t, s.SetAttributeValue(s.sh, public, []*p11.Attribute{p11.NewAttribute(p11.CKA_ID, former)}))
			slot.URI.ID = former
		}
		for _, class := range c.gone {
			for _, o := range s.objects(t, class, slot.URI.ID) {
				must.OK(t, s.DestroyObject(s.sh, o))
			}
		}
		must.OK(t, tok.Lock())
		locked, err := tok.Slots(t.Context(), nil)
		must.OK(t, err)
		for _, l := range locked {
			if l.Half != "" {
				t.Errorf("%s: before login %s is said to be half: %q", c.name, l.URI, l.Half)
			}
		}
		must.OK(t, tok.Unlock(t.Context(), hsmtest.Typing(t, testPIN)))
		left, err := tok.Slot(t.Context(), slot.URI)
		if err != nil || left.Half != c.half || left.Key != nil {
			t.Fatalf("%s: %+v, %v", c.name, left, err)
		}
		if err := tok.Delete(t.Context(), left.URI.Identity(), hsmtest.Typing(t, testPIN)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, err := tok.Slot(t.Context(), slot.URI); !errors.Is(err, hsm.ErrNoKey) {
			t.Errorf("%s: it is still there: %v", c.name, err)
		}
		if private := s.objects(t, p11.CKO_PRIVATE_KEY, id); len(private) > 0 {
			t.Errorf("%s: its private key is still there", c.name)
		}
		if now, err := tok.Slot(t.Context(), whole.URI); err != nil || now.Half != "" || now.Key == nil {
			t.Errorf("%s: the whole key: %+v, %v", c.name, now, err)
		}
	}
}

// TestOlderCertificates: a certificate whose replacement was killed half-way is told apart, before
// login too. Storing the one that is shown once more removes the others, and writes nothing.
func TestOlderCertificates(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	defer tok.Close()
	slot := generateKey(t, tok, hsm.GenerateOptions{Label: "prod"})
	signer, err := tok.Signer(t.Context(), slot.URI, nil, hsmtest.Typing(t, testPIN))
	must.OK(t, err)
	s := spyOn(t, soft, testLabel)
	for _, name := range []string{"jane", "joan", "june"} {
		cert, err := hsmtest.Certify(signer, name)
		must.OK(t, err)
		template, err := certificateTemplate(&entry{id: slot.URI.ID}, "prod", cert)
		must.OK(t, err)
		if _, err := s.CreateObject(s.sh, template); err != nil {
			t.Fatal(err)
		}
	}
	for _, locked := range []bool{false, true} {
		if locked {
			must.OK(t, tok.Lock())
		}
		if slot, err = tok.Slot(t.Context(), slot.URI); err != nil || len(slot.Older) != 2 || slot.Half != "" ||
			slices.ContainsFunc(slot.Older, slot.Certificate.Equal) {
			t.Fatalf("locked %t: %+v, %v", locked, slot, err)
		}
	}
	must.OK(t, tok.StoreCertificate(t.Context(), slot.URI, slot.Certificate, hsmtest.Typing(t, testPIN)))
	left := s.objects(t, p11.CKO_CERTIFICATE, slot.URI.ID)
	now, err := tok.Slot(t.Context(), slot.URI)
	if err != nil || len(left) != 1 || len(now.Older) != 0 || !now.Certificate.Equal(slot.Certificate) {
		t.Errorf("there are %d: %+v, %v", len(left), now, err)
	}
}
