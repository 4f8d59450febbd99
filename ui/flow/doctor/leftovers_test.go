package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestLeftovers: each thing that an interrupted command may leave is named by what it is,
// with the command that removes it alone. Nobody is told that a thing is kubehsm's own.
func TestLeftovers(t *testing.T) {
	m := newMachine(t)
	public := func() *ecdsa.PublicKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return &key.PublicKey
	}
	card := hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: "12345678", Initialized: true,
		Can: hsm.Abilities{Delete: true, DeleteCertificate: true}}
	slot := func(id string, half hsm.Half, key *ecdsa.PublicKey, cert *x509.Certificate) hsm.Slot {
		s := hsm.Slot{URI: card.URI(), ID: id, Half: half, Certificate: cert}
		s.URI.Slot = id
		if key != nil {
			s.Key = &hsm.Key{Algorithm: hsm.ECDSAP256, Public: key}
		}
		return s
	}
	cert := &x509.Certificate{PublicKey: public(), NotBefore: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	m.enroll("prod", "https://prod.example.com", nil, time.Now(), time.Now().Add(time.Hour))
	store := enrolling.NewStore(m.Env)
	interrupted := &enrolling.Progress{Generating: true}
	interrupted.Options.Name, interrupted.Options.Token = "begun", card.URI()
	interrupted.Options.Generate.Slot = "9c"
	if err := store.Save(interrupted); err != nil {
		t.Fatal(err)
	}
	of := func(token hsm.TokenInfo, s hsm.Slot) []Check {
		return leftovers(m.Options, hsm.View{Info: token, Slots: []hsm.Slot{s}})
	}
	for _, c := range []struct {
		slot       hsm.Slot
		state      State
		found, fix string
	}{
		{slot("82", hsm.HalfPrivate, nil, nil), Warning, "a private key without its public key", "key delete --key"},
		{slot("82", hsm.HalfPublic, nil, nil), Warning, "a public key without its private key", "key delete --key"},
		{slot("82", hsm.HalfApart, nil, nil), Warning, "under different ids", "key delete --key"},
		{slot("82", hsm.HalfCertificate, nil, cert), Warning, "a certificate without its key, issued 2026-03-04",
			"certificate delete --key 'piv:serial=12345678;slot=82'"},
		{slot("82", hsm.HalfOther, public(), cert), Warning, "for another key", "certificate delete --key"},
		{slot("82", "", public(), nil), Note, "no enrollment or request on this computer names", "key delete --key"},
		{slot("9c", "", public(), nil), Note, "of an enrollment that was interrupted", "kubehsm enroll --name begun"},
	} {
		checks := of(card, c.slot)
		if len(checks) != 1 {
			t.Errorf("%s: %+v", c.found, checks)
			continue
		}
		m.expect(checks[0], c.state, c.found, c.fix)
	}
	old := card
	old.Can.Delete = false
	if checks := of(old, slot("82", "", public(), nil)); len(checks) != 1 || checks[0].Fix != "" {
		t.Errorf("a card that deletes no keys: %+v", checks)
	}

	hsmOf := hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Label: "blue", Initialized: true}
	m.expect(of(hsmOf, hsm.Slot{})[0], Note, "hides them until its PIN is given",
		"kubehsm doctor --unlock pkcs11:token=blue")
	m.Unlocked = &hsm.View{Info: hsmOf, Slots: []hsm.Slot{{URI: hsmOf.URI(), Label: "x", Half: hsm.HalfPrivate}}}
	if checks := of(hsmOf, hsm.Slot{}); len(checks) != 1 || checks[0].Leftover == nil {
		t.Errorf("after login: %+v", checks)
	}
}

// TestUnlock: what a token hides is read with its PIN, and nothing is changed.
func TestUnlock(t *testing.T) {
	var before map[string]string
	flowtest.UseCase{Name: "unlock", Answers: []hsmtest.Answer{hsmtest.PIN("123456")},
		World: func(t testing.TB) *flowtest.World {
			w := flowtest.NewWorld(t, hsm.SchemePKCS11, hsmtest.FakeOptions{Label: "blue"}, "")
			w.Generate(hsm.GenerateOptions{Label: "mine"})
			before = w.State()
			return w
		},
		Do: func(ctx context.Context, w *flowtest.World, p hsm.Prompter) error {
			v, err := Unlock(ctx, w.Env, w.Card.Info().URI(), p)
			if err == nil && (v.Info.Label != "blue" || len(v.Slots) != 1 || v.Slots[0].Label != "mine") {
				err = fmt.Errorf("it read %+v", v)
			}
			return err
		},
		Done: func(_ testing.TB, w *flowtest.World) { w.Unchanged(before) }}.Try(t)
}
