//go:build cgo || windows

package piv

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// rig is a lab with a card and the token that the driver sees in it.
type rig struct {
	lab  *vcard.Lab
	card *vcard.Card
	d    *Driver
	tok  *Token
}

func newRig(t *testing.T, config vcard.Config) *rig {
	t.Helper()
	r := &rig{lab: vcard.ForTest(t), card: vcard.New(config), d: New(Options{Patience: time.Second})}
	r.lab.Insert(t, 0, r.card)
	r.tok = r.open(t, hsm.URI{Scheme: hsm.SchemePIV})
	return r
}

func (r *rig) open(t *testing.T, u hsm.URI) *Token {
	t.Helper()
	tok, err := r.d.Open(t.Context(), u)
	must.OK(t, err)
	t.Cleanup(func() { tok.Close() })
	return tok.(*Token)
}

func typing(t *testing.T) *hsmtest.Script { return hsmtest.Typing(t, vcard.DefaultPIN) }

func (r *rig) generate(t *testing.T, o hsm.GenerateOptions, p hsm.Prompter) hsm.Slot {
	t.Helper()
	slot, err := r.tok.Generate(t.Context(), o, p)
	must.OK(t, err)
	return slot
}

func (r *rig) signer(t *testing.T, slot string, p hsm.Prompter) crypto.Signer {
	t.Helper()
	s, err := r.tok.Signer(t.Context(), hsm.URI{Scheme: hsm.SchemePIV, Slot: slot}, nil, p)
	must.OK(t, err)
	return s
}

func sign(s crypto.Signer) error {
	sum := sha256.Sum256([]byte("kubehsm"))
	_, err := s.Sign(rand.Reader, sum[:], crypto.SHA256)
	return err
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

// forgotten fails t if the card still counts anything as proved.
func (r *rig) forgotten(t *testing.T, when string) {
	t.Helper()
	if r.card.Verified() || r.card.Managed() {
		t.Errorf("%s the card is left with PIN verified %v, management key proved %v", when, r.card.Verified(),
			r.card.Managed())
	}
}

// place puts a certificate (DER) beside the key in a slot, as another program would.
func (r *rig) place(slot byte, der []byte) {
	content := append([]byte{0x70, 0x82, byte(len(der) >> 8), byte(len(der))}, der...)
	object := map[byte]uint32{0x9a: 0x5fc105, 0x9c: 0x5fc10a, 0x9e: 0x5fc101}[slot]
	r.card.SetObject(object, append(content, 0x71, 1, 0, 0xfe, 0))
}
