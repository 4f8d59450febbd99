//go:build cgo || windows

package piv

import (
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestKilledOnACard: whatever writes to a card ends after each of its commands, as where the
// card is pulled out or the process killed. What is left is told apart, and deleted by itself:
// the other key stays whole.
func TestKilledOnACard(t *testing.T) {
	r := newRig(t, vcard.Config{})
	uri := func(slot string) hsm.URI { return hsm.URI{Scheme: hsm.SchemePIV, Slot: slot} }
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	r.certify(t, "9a")
	for name, c := range map[string]struct {
		first byte // first command that writes
		do    func() error
		half  hsm.Half // leftover where the first command was the last
	}{
		"delete": {vcard.INSMoveKey, func() error {
			return r.tok.Delete(t.Context(), uri("82"), typing(t))
		}, hsm.HalfCertificate},
		"overwrite": {vcard.INSGenerate, func() error {
			_, err := r.tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "82", Overwrite: true}, typing(t))
			return err
		}, hsm.HalfOther},
	} {
		t.Run(name, func(t *testing.T) {
			for step := 0; ; step++ {
				r.generate(t, hsm.GenerateOptions{Slot: "82"}, typing(t))
				r.certify(t, "82")
				ended := r.endAfter(t, c.first, step, c.do)
				slots, err := r.tok.Slots(t.Context(), nil)
				must.OK(t, err)
				halves := 0
				for _, s := range slots {
					if s.Half == "" {
						continue
					}
					halves++
					if s.ID != "82" || s.Half != c.half {
						t.Errorf("after step %d slot %s has %q", step, s.ID, s.Half)
					}
					must.OK(t, r.tok.Delete(t.Context(), s.URI, typing(t)))
				}
				if step == 0 && halves != 1 || !ended && halves != 0 {
					t.Errorf("after step %d there are %d halves", step, halves)
				}
				whole, err := r.tok.Slot(t.Context(), uri("9a"))
				if err != nil || !whole.CertificateMatches() || sign(r.signer(t, "9a", typing(t))) != nil {
					t.Fatalf("after step %d the other key: %+v, %v", step, whole, err)
				}
				for _, left := range []string{"82", "83"} {
					if err := r.tok.Delete(t.Context(), uri(left), typing(t)); err != nil && !errors.Is(err, hsm.ErrNoKey) {
						t.Fatal(err)
					}
				}
				if !ended {
					return
				}
			}
		})
	}
}

// endAfter runs do with a card that is pulled out once it has executed first, or that many commands
// that write an object after it, and puts the card back. It tells whether do was ended so.
func (r *rig) endAfter(t *testing.T, first byte, step int, do func() error) bool {
	t.Helper()
	end := vcard.Fault{INS: first, Times: 1, After: true, Unplug: true}
	if step > 0 {
		end.INS, end.Skip = vcard.INSPutData, step-1
	}
	r.card.Fail(end)
	err := do()
	r.card.Heal()
	if err == nil {
		return false
	}
	r.lab.Remove(t, 0)
	r.lab.Insert(t, 0, r.card)
	r.tok = r.open(t, hsm.URI{Scheme: hsm.SchemePIV})
	return true
}
