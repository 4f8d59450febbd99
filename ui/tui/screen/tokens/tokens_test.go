package tokens_test

import (
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

// TestHotPlug: tokens that come and go do not move the selection.
func TestHotPlug(t *testing.T) {
	w := screentest.New(t)
	r := w.Open("")
	r.Sees("No token found")
	blue := w.Tokens.Add(hsmtest.FakeOptions{Label: "blue-1"}) // no word of a fingerprint
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	r.Walk("r", "~blue-1", "~12345678", "~9a", "home", "down", "~Slot 9a on")
	blue.Unplug()
	r.Press("r")
	r.Loses("blue-1")
	r.Sees("Slot 9a on")
	card.Unplug()
	r.Walk("r", "~No token found")
	blue.Plug()
	card.Plug()
	r.Walk("r", "~blue-1", "~Slot 9a on")
}

// TestCopies: the URI and the fingerprint of the key under the cursor.
func TestCopies(t *testing.T) {
	w := screentest.New(t)
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678"})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	r := w.Open("")
	r.Walk("~9a", "f", "~copy fingerprint: there is no key", "c")
	r.Until("copied", func() bool { return r.Copied() == "piv:serial=12345678" })
	r.Press("down", "f")
	want, err := hsm.Fingerprint(key.Key.Public)
	if err != nil {
		t.Fatal(err)
	}
	r.Until("the fingerprint", func() bool { return r.Copied() == want })
	r.Walk("x", "~kubehsm enroll --key 'piv:serial=12345678;slot=9a'")
}

// TestProblems: what cannot be read is named beside what can, with what mends it.
func TestProblems(t *testing.T) {
	w := screentest.New(t)
	w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})
	w.Tokens.Add(hsmtest.FakeOptions{Label: "red"}).Fail(hsmtest.OpSlots, errors.New("the library crashed"))
	w.Cards.SetProblems(hsm.Problem{Source: "a reader", Err: hint.With(errors.New("pcscd is not running"), "start it")})
	r := w.Open("")
	r.Sees("blue", "red", "read token", "pcscd is not running")
}

// TestOpens: enter leads to the token, e to the wizard, R to the wizard's start.
func TestOpens(t *testing.T) {
	w := screentest.New(t)
	w.Tokens.Add(hsmtest.FakeOptions{Label: "blue"})
	r := w.Open("")
	r.Walk("~blue", "enter", "~Tokens › blue", "esc")
	r.Loses("Tokens › blue")
	r.Walk("e", "~This is not possible yet")
}
