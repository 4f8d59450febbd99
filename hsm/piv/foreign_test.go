//go:build cgo || windows

package piv

import (
	"context"
	"crypto"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// kind is the configuration of a kind of card.
func kind(t *testing.T, name string) vcard.Config {
	t.Helper()
	for _, p := range vcard.Personalities() {
		if p.Name == name {
			return p.Config
		}
	}
	t.Fatalf("no kind of card %q", name)
	return vcard.Config{}
}

// TestResetGivesAnotherIdentity: a card that is known by its CHUID and gets another one with
// a reset is the same token under its new name.
func TestResetGivesAnotherIdentity(t *testing.T) {
	r := newRig(t, kind(t, "serial 0, new CHUID at reset"))
	before, err := r.tok.Info(t.Context())
	must.OK(t, err)
	if len(before.Serial) != 32 {
		t.Fatalf("serial %q: the card says 0", before.Serial)
	}
	must.OK(t, r.tok.Reset(t.Context(), hsmtest.NewScript(t, hsmtest.Yes())))
	after, err := r.tok.Info(t.Context())
	must.OK(t, err)
	if after.Serial == before.Serial || len(after.Serial) != 32 {
		t.Errorf("serial %q after %q", after.Serial, before.Serial)
	}
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	must.OK(t, sign(r.signer(t, "9a", typing(t))))
	r.open(t, after.URI())
	_, err = r.d.Open(t.Context(), before.URI())
	want(t, err, hsm.ErrNoToken)
}

// TestResetUnknown: a card that says no version, or does not know RESET, is not blocked for it.
func TestResetUnknown(t *testing.T) {
	for lacks, answers := range map[vcard.Feature][]hsmtest.Answer{vcard.Version: nil, vcard.Reset: {hsmtest.Yes()}} {
		r := newRig(t, vcard.Config{Without: lacks})
		want(t, r.tok.Reset(t.Context(), hsmtest.NewScript(t, answers...)), hsm.ErrUnsupported)
		if pin, puk := r.card.PINRetries(); pin != 3 || puk != 3 {
			t.Errorf("%d PIN and %d PUK tries left", pin, puk)
		}
		r.lab.Close()
	}
}

// TestNotesKeptButRefused: what the card has kept is kept, whatever it answers, and one key
// is made.
func TestNotesKeptButRefused(t *testing.T) {
	config := kind(t, "notes kept but refused")
	config.Ways.Management = 0 // the factory's key, which needs no question
	r := newRig(t, config)
	key, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Protect: true}, typing(t))
	must.OK(t, err)
	set := r.card.Count(vcard.INSSetManagement)
	if _, have := r.card.ManagementKey(); string(have) != string(key.Bytes()) || set != 1 {
		t.Errorf("another key is in force, or %d were set", set)
	}
	d, err := r.tok.Details(t.Context())
	must.OK(t, err)
	if !d.ManagementKey.Protected {
		t.Error("the card does not count as one that keeps its key")
	}
	must.OK(t, r.tok.Lock())
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN)))
}

// signEd makes an Ed25519 signature.
func signEd(s crypto.Signer) error {
	_, err := s.Sign(rand.Reader, []byte("kubehsm"), crypto.Hash(0))
	return err
}

// TestSignaturesThatDoNotVerify: a key is tried where that costs nothing, else by its first
// signature; one that is of no use is removed if the card can, and another algorithm named.
func TestSignaturesThatDoNotVerify(t *testing.T) {
	liar := kind(t, "says 5.7.0, can less")
	deletes := vcard.Config{Ways: vcard.Ways{WrongWith: liar.Ways.WrongWith}}
	for name, config := range map[string]vcard.Config{"keeps keys": liar, "deletes keys": deletes} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config)
			o := hsm.GenerateOptions{Slot: "9a", Algorithm: hsm.Ed25519}
			must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
			_, err := r.tok.Generate(t.Context(), o, hsmtest.NewScript(t))
			want(t, err, hsm.ErrUnsupported)
			if !strings.Contains(hint.Of(err), "--algorithm ecdsa-p256") {
				t.Errorf("%v: hint %q", err, hint.Of(err))
			}
			if left := r.card.Public(0x9a) != nil; left != (name == "keeps keys") {
				t.Errorf("left behind %v: %v", left, err)
			}
			r.forgotten(t, "after it")
			// Nobody has given the PIN: the first signature tells.
			must.OK(t, r.tok.Lock())
			o.Overwrite = true
			r.generate(t, o, hsmtest.NewScript(t))
			err = signEd(r.signer(t, "9a", typing(t)))
			want(t, err, hsm.ErrUnsupported)
			if !strings.Contains(hint.Of(err), "--algorithm ecdsa-p256") {
				t.Errorf("%v: hint %q", err, hint.Of(err))
			}
			o.Algorithm = hsm.ECDSAP256
			r.generate(t, o, hsmtest.NewScript(t))
			must.OK(t, sign(r.signer(t, "9a", nil)))
		})
	}
}

// TestPlainCardKeepsTrackOfItsKey: a card that tells a public key only once has a note of it
// beside the key, which no certificate is lost for and none is taken for.
func TestPlainCardKeepsTrackOfItsKey(t *testing.T) {
	r := newRig(t, kind(t, "NIST SP 800-73-4"))
	made := r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	again := New(Options{})
	defer again.Close()
	tok, err := again.Open(t.Context(), made.URI.TokenOnly())
	must.OK(t, err)
	defer tok.Close()
	found, err := tok.Slot(t.Context(), made.URI)
	must.OK(t, err)
	if found.Key == nil || !hsm.SameKey(found.Key.Public, made.Key.Public) || found.Certificate != nil ||
		found.Key.Origin != "" || found.Problem != "" {
		t.Fatalf("%+v, %+v", found, found.Key)
	}
	_, err = tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9a"}, typing(t))
	want(t, err, hsm.ErrOccupied)
	cert := r.certify(t, "9a")
	found, err = tok.Slot(t.Context(), made.URI)
	if err != nil || !found.CertificateMatches() || !found.Certificate.Equal(cert) {
		t.Errorf("%+v, %v", found, err)
	}
	must.OK(t, sign(r.signer(t, "9a", typing(t))))
}

// TestNamelessCardsAreNotMixedUp: a card with nothing to be known by is the one that was
// opened only as long as it stays where it is.
func TestNamelessCardsAreNotMixedUp(t *testing.T) {
	nameless := vcard.Config{Without: vcard.Serial | vcard.Version | vcard.Metadata}
	r := newRig(t, nameless)
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
	other := vcard.New(nameless)
	r.lab.Insert(t, 0, other)
	_, err := r.tok.Info(t.Context())
	want(t, err, hsm.ErrRemoved)
	_, err = r.tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9a"}, hsmtest.NewScript(t))
	want(t, err, hsm.ErrRemoved)
	if n := len(other.Log()); other.Count(vcard.INSVerify) != 0 || other.Public(0x9a) != nil {
		t.Errorf("%d commands reached another card", n)
	}
	r.lab.Insert(t, 1, r.card)
	_, err = r.tok.Info(t.Context())
	want(t, err, hsm.ErrRemoved)
	_, err = r.d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV})
	want(t, err, hsm.ErrSeveralTokens)
	if h := hint.Of(err); !strings.Contains(h, "leave one in its reader") {
		t.Errorf("hint %q", h)
	}
}

// TestSlowCard: however many sign at once with a card that takes its time, each comes to its
// turn, and one who gives up goes at once.
func TestSlowCard(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
	const signers, rounds = 12, 2
	var all []crypto.Signer
	for range signers {
		all = append(all, r.signer(t, "9a", nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	impatient, err := r.tok.Signer(ctx, hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"}, nil, nil)
	must.OK(t, err)
	r.card.SetDelay(4 * time.Millisecond)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			for range rounds {
				if err := sign(s); err != nil {
					t.Errorf("signer %d: %v", i, err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			}
		})
	}
	left := make(chan error, 1)
	go func() { left <- sign(impatient) }()
	cancel()
	if err := <-left; err != nil { // This signer may have been the first of all.
		want(t, err, context.Canceled)
	}
	mu.Lock()
	if len(order) == signers*rounds {
		t.Error("who gave up had to wait for all others")
	}
	mu.Unlock()
	slots, err := r.tok.Slots(t.Context(), nil) // a reading of all slots amid signatures
	if err != nil || len(slots) != 1 {
		t.Errorf("%d slots, %v", len(slots), err)
	}
	wg.Wait()
	if len(order) != signers*rounds {
		t.Fatalf("%d signatures", len(order))
	}
	seen := map[int]bool{}
	for _, i := range order[:signers+signers/2] { // Signers that come again queue behind those that wait.
		seen[i] = true
	}
	if len(seen) != signers {
		t.Errorf("after %d signatures only %d of %d signers had their turn", signers+signers/2, len(seen), signers)
	}
	r.forgotten(t, "after all this")
}

// TestOthersGetTheCard: another program gets a card that signatures follow each other on,
// within the time that programs wait for one, again and again.
func TestOthersGetTheCard(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
	r.card.SetDelay(10 * time.Millisecond)
	r.d.cards.row = 100 * time.Millisecond
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		s := r.signer(t, "9a", nil)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := sign(s); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3 {
		card, err := pcsc.New().Connect(t.Context(), r.lab.Reader(0), time.Minute)
		if err != nil {
			t.Errorf("turn %d: %v", i, err)
			break
		}
		must.OK(t, card.End(false))
	}
	close(stop)
	wg.Wait()
}

// TestLongReadingLetsOthersIn: all slots of a slow card are not read in one hold.
func TestLongReadingLetsOthersIn(t *testing.T) {
	const getVersion = 0xfd // Each hold begins with it, as it tells who the card is.
	r := newRig(t, vcard.Config{Firmware: [3]byte{4, 3, 5}})
	r.d.cards.row = 40 * time.Millisecond
	r.card.SetDelay(2 * time.Millisecond) // All slots take more than two rows.
	before := len(r.card.Log())
	_, err := r.tok.AllSlots(t.Context())
	must.OK(t, err)
	holds := 0
	for _, e := range r.card.Log()[before:] {
		if e.INS == getVersion {
			holds++
		}
	}
	if holds < 2 {
		t.Errorf("all slots were read in %d holds", holds)
	}
}
