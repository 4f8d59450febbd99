package token_test

import (
	"encoding/pem"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

const pin = "123456"

// rig shows the screen of a card that can be administered, with a certified key in
// slot 9a.
type rig struct {
	*screentest.Rig
	card *hsmtest.FakeToken
	key  hsm.Slot
}

func open(t *testing.T) *rig {
	t.Helper()
	w := screentest.New(t)
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678", Can: hsmtest.Administered()})
	key := w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"})
	w.Certify(card, key, "jane", "dev")
	r := &rig{Rig: w.Open(""), card: card, key: key}
	r.show()
	return r
}

// show goes from the list of tokens to the one there is.
func (r *rig) show() {
	r.T.Helper()
	r.Walk("~12345678", "enter", "~esc back", "~PUK default")
}

func (r *rig) slots() map[string]hsm.Slot { return r.World.Slots(r.card) }

// steps presses keys that open something, and waits until it is there.
func (r *rig) steps(sees string, names ...string) {
	r.T.Helper()
	r.Press(names...)
	r.Sees(sees)
}

func TestChangePIN(t *testing.T) {
	r := open(t)
	r.Press("p")
	r.Type("PIN of", pin)
	r.Walk("~New", `"648219"`, "enter", `"648219"`, "enter", "~the PIN is changed")
	if got := r.card.PIN(); got != "648219" {
		t.Errorf("the PIN is %s", got)
	}
	r.steps("Done before", "x")
	r.Sees("kubehsm token pin change --token")
}

// TestWrongPIN: a try is gone, which is said, and the right one makes up for it.
func TestWrongPIN(t *testing.T) {
	r := open(t)
	r.Press("p")
	r.Type("PIN of", "111111")
	r.Sees("wrong PIV PIN", "2 tries left")
	if n := r.card.Tries(); n != 2 {
		t.Errorf("%d tries are left", n)
	}
	r.Walk(`"`+pin+`"`, "enter", "~New", "esc", "~Change the PIN: cancelled")
	if r.card.Tries() != 3 || r.card.PIN() != pin {
		t.Errorf("%d tries are left of %s", r.card.Tries(), r.card.PIN())
	}
}

// TestUnblockPIN: what a card refuses stays on the screen until it is dismissed.
func TestUnblockPIN(t *testing.T) {
	r := open(t)
	r.card.Fail(hsmtest.OpAdminister, hint.With(errors.New("the PUK is locked"), "reset the card"))
	r.steps("error: ", "u")
	r.Sees("the PUK is locked", "hint: reset the card")
	r.Time = r.Time.Add(time.Minute)
	r.Send(nil)
	r.Walk("~the PUK is locked", "esc")
	r.Loses("the PUK is locked")
	r.card.Before(nil)
	r.Press("u")
	r.Type("PUK of", hsmtest.FakePUK)
	r.Walk("~New", `"735192"`, "enter", `"735192"`, "enter", "~the new PIN is set")
	if got := r.card.PIN(); got != "735192" {
		t.Errorf("the PIN is %s", got)
	}
}

// TestRandomPUK: it is shown until it was kept, and not a moment before it is in
// force.
func TestRandomPUK(t *testing.T) {
	r := open(t)
	r.steps("8 digits, shown once", "P")
	r.Press("down", "enter")
	r.Type("PUK of", "11111111")
	r.Sees("wrong PUK")
	if strings.Contains(r.View(), "Have you saved it?") || r.card.PUK() != hsmtest.FakePUK {
		t.Fatalf("the PUK is %s:\n%s", r.card.PUK(), r.View())
	}
	r.Walk(`"`+hsmtest.FakePUK+`"`, "enter", "~Have you saved it?")
	fresh := r.card.PUK()
	r.Sees(fresh)
	r.Walk("n", "~Have you saved it?", "~"+fresh, "y", "~the PUK is changed")
	if fresh == hsmtest.FakePUK || len(fresh) != 8 || strings.Contains(r.View(), fresh) {
		t.Errorf("the PUK is %s:\n%s", fresh, r.View())
	}
}

// TestManagementKey: one that nobody keeps is shown until it is kept, and cannot
// be copied.
func TestManagementKey(t *testing.T) {
	r := open(t)
	r.steps("A new management key", "M")
	r.Walk("down", "enter", "~made and shown here once", "enter", "~Have you saved it?", "~61206d616e6167656d656e74",
		"c", "n", "~Have you saved it?", "~61206d616e6167656d656e74", "y", "~the management key is replaced")
	if strings.Contains(r.View(), "61206d61") || r.Copied() != "" {
		t.Errorf("it is still there, or was copied:\n%s", r.View())
	}
	r.Time = r.Time.Add(time.Minute)
	r.Loses("the management key is replaced")
	r.steps("A new management key", "M")
	r.Press("enter")
	r.Type("PIN of", pin)
	r.Sees("the management key is replaced")
	if strings.Contains(r.View(), "Have you saved it?") {
		t.Error("a key is shown that the card keeps")
	}
}

func TestNewKey(t *testing.T) {
	r := open(t)
	r.Press("end")
	r.steps("A new key in slot 9e", "n")
	r.Press("enter")
	r.Type("PIN of", pin)
	r.Sees("the key is made")
	if s, ok := r.slots()["9e"]; !ok || s.Key.Algorithm != hsm.ECDSAP256 {
		t.Errorf("in slot 9e: %+v", s)
	}
}

// TestOverwrite: a key is destroyed only after the card's serial was typed.
func TestOverwrite(t *testing.T) {
	r := open(t)
	must.OK(t, r.World.Env.Dirs.Prepare())
	r.steps("A new key in slot 9a", "n")
	r.Walk("enter", "~Destroy what is in slot 9a", "~Type 12345678", `"1234567"`, "enter", "~Type 12345678", "esc",
		"~Generate a key: cancelled")
	if s := r.slots()["9a"]; !hsm.SameKey(s.Key.Public, r.key.Key.Public) {
		t.Fatal("the key is another one")
	}
	r.steps("A new key in slot 9a", "n")
	r.Walk("enter", "~Type 12345678", `"12345678"`, "enter")
	r.Type("PIN of", pin)
	r.Sees("the key is made")
	if s := r.slots()["9a"]; hsm.SameKey(s.Key.Public, r.key.Key.Public) {
		t.Error("the key is the same")
	}
}

// TestDeleteKey names the enrollments that end with it.
func TestDeleteKey(t *testing.T) {
	r := open(t)
	r.World.Enroll("prod-hsm", r.key, r.slots()["9a"].Certificate)
	r.steps("Type 12345678", "D")
	r.Walk("~prod-hsm", `"12345678"`, "enter")
	r.Type("PIN of", pin)
	r.Sees("the key is destroyed")
	if n := len(r.slots()); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestCertificate(t *testing.T) {
	r := open(t)
	cert := r.slots()["9a"].Certificate
	r.steps("Certificate in", "enter")
	r.Walk("~User         jane", "~Groups       dev", "~BEGIN CERTIFICATE", "c", "esc")
	r.Until("copied", func() bool { return r.Copied() != "" })
	if block, _ := pem.Decode([]byte(r.Copied())); block == nil || !slices.Equal(block.Bytes, cert.Raw) {
		t.Errorf("copied %q", r.Copied())
	}
}

func TestReset(t *testing.T) {
	r := open(t)
	r.steps("Type 12345678", "X")
	r.Walk("~ecdsa-p256", `"12345678"`, "enter", "~the PIV application is reset")
	if n := len(r.slots()); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// TestNoAttestation: what the card says that it cannot do is greyed, and says why.
func TestNoAttestation(t *testing.T) {
	r := open(t)
	r.steps("attestation: this card does not have it", "t")
}

// TestReadOnly: what changes something is greyed, by key and by palette; looking
// is allowed.
func TestReadOnly(t *testing.T) {
	w := screentest.New(t)
	card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678", Can: hsmtest.Administered()})
	w.Certify(card, w.Generate(card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Slot: "9a"}), "jane")
	r := &rig{Rig: w.OpenReadOnly(""), card: card}
	r.show()
	r.Sees("read-only")
	for k, says := range map[string]string{"p": "change PIN: read-only mode", "X": "reset the token: read-only mode"} {
		r.steps(says, k)
	}
	r.Walk("ctrl+p", `"reset"`, "~reset the token (read-only mode)", "enter", "esc")
	r.steps("BEGIN CERTIFICATE", "enter")
	if len(r.slots()) != 1 || card.PIN() != pin {
		t.Error("the card was changed")
	}
}

// TestTokenGoes: a card that is unplugged is missed, also in the middle of what is
// done with it, and read again when it is back.
func TestTokenGoes(t *testing.T) {
	r := open(t)
	r.Walk("p", "~PIN of")
	r.card.Unplug()
	r.Walk(`"`+pin+`"`, "enter", "~error: ", "~Change the PIN", "esc", "~The token is not there")
	r.steps("change PIN: the token is not there", "p")
	r.card.Plug()
	r.Press("esc", "r")
	r.Loses("The token is not there")
	if r.card.PIN() != pin {
		t.Errorf("the PIN is %s", r.card.PIN())
	}
}

// TestCancelled: esc ends what takes long, and nothing is changed.
func TestCancelled(t *testing.T) {
	r := open(t)
	r.Walk("p", "~PIN of", "esc", "~Change the PIN: cancelled", "p", "~PIN of")
	r.Send(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	r.Until("quit", func() bool { return r.Quit })
	if r.card.PIN() != pin || r.card.Tries() != 3 {
		t.Errorf("the PIN is %s, %d tries left", r.card.PIN(), r.card.Tries())
	}
}

// TestCopies: the screen copies the URI of the slot under the cursor, and the key's
// fingerprint.
func TestCopies(t *testing.T) {
	r := open(t)
	r.Press("c")
	r.Until("the URI", func() bool { return r.Copied() == "piv:serial=12345678;slot=9a" })
	want, err := hsm.Fingerprint(r.key.Key.Public)
	must.OK(t, err)
	r.Press("f")
	r.Until("the fingerprint", func() bool { return r.Copied() == want })
	r.steps("kubehsm token info --token piv:serial=12345678", "x")
	r.Walk("~kubehsm key show --key 'piv:serial=12345678;slot=9a'", "~kubehsm certificate show", "esc", "end", "f",
		"~copy fingerprint: there is no key")
}

// TestTypedPUK: a new PUK is typed twice.
func TestTypedPUK(t *testing.T) {
	r := open(t)
	r.steps("A new PUK", "P")
	r.Press("enter")
	r.Type("PUK of", hsmtest.FakePUK)
	r.Walk("~New", `"97531864"`, "enter", `"97531864"`, "enter", "~the PUK is changed")
	if got := r.card.PUK(); got != "97531864" {
		t.Errorf("the PUK is %s", got)
	}
}

// TestEnroll: the wizard opens on the slot under the cursor.
func TestEnroll(t *testing.T) {
	r := open(t)
	r.steps("no user name is given", "e")
	r.Walk("x", "~--key", "~'piv:serial=12345678;slot=9a'", "esc", "esc", "~change PIN", "end", "e",
		"~no user name is given", "x", "~--slot 9e")
}

// TestAttestation: an attestation counts only if its chain ends with the maker's root.
func TestAttestation(t *testing.T) {
	statement, err := os.ReadFile("../../../../hsm/attest/testdata/yubikey5.pem")
	must.OK(t, err)
	a, err := attest.DecodePEM(statement)
	must.OK(t, err)
	unproven := a
	unproven.Intermediate = a.Statement // a chain that ends with no maker
	for _, c := range []struct {
		says hsm.Attestation
		want []string
	}{
		{a, []string{"generated on YubiKey 5C Nano 15732500, firmware 5.4.3", "It is verified to Yubico PIV Root CA Serial 263751",
			"for this very key"}},
		{unproven, []string{"It is NOT verified", "can claim anything"}},
	} {
		w := screentest.New(t)
		card := w.Cards.Add(hsmtest.FakeOptions{Serial: "12345678", Can: hsmtest.Administered()})
		must.OK(t, card.AddAttested("9a", c.says))
		r := &rig{Rig: w.Open(""), card: card}
		r.show()
		r.steps("What the token says of the key in slot 9a", "t")
		for _, s := range c.want {
			r.Sees(s)
		}
		r.Walk("esc", "x", "~kubehsm key attest --key")
	}
}

// soft shows the screen of a PKCS#11 token that can be set up.
func soft(t *testing.T, blank bool) *rig {
	t.Helper()
	w := screentest.New(t)
	tok := w.Tokens.Add(hsmtest.FakeOptions{Label: "blue", PINNotSet: blank})
	tok.Describe(func(i *hsm.TokenInfo) { i.Can.ChangePIN, i.Can.Initialize, i.Initialized = true, true, !blank })
	must.OK(t, w.Env.Dirs.Prepare())
	r := &rig{Rig: w.Open(""), card: tok}
	r.Walk("~blue", "enter", "~Tokens › blue")
	return r
}

// TestSetUp: a blank token gets a label, an SO PIN and a PIN.
func TestSetUp(t *testing.T) {
	r := soft(t, true)
	r.Sees("It is not initialized yet: I initializes it")
	r.steps("change PIN: the token is not initialized yet", "p")
	r.steps("It gets an SO PIN and a PIN.", "I")
	r.Walk("ctrl+u", "enter", "~1 to 32 bytes", `"green"`, "enter", "~New SO PIN of blue", `"87654321"`, "enter",
		`"87654321"`, "enter", "~New PIN of blue", `"648219"`, "enter", `"648219"`, "enter",
		"~the token is initialized")
	if i := r.card.Info(); !i.Initialized || i.Label != "green" || r.card.PIN() != "648219" || r.card.PUK() != "87654321" {
		t.Errorf("%+v with the PIN %s and the SO PIN %s", i, r.card.PIN(), r.card.PUK())
	}
}

// TestSetUpAnew: what is on the token is erased only after its serial was typed, and
// with its SO PIN.
func TestSetUpAnew(t *testing.T) {
	r := soft(t, false)
	r.World.Generate(r.card, hsm.GenerateOptions{Algorithm: hsm.ECDSAP256, Label: "old"})
	r.Walk("r", "~ecdsa-p256")
	serial := r.card.Info().Serial
	r.steps("Everything on it is erased; its SO PIN stays.", "X")
	r.Walk("enter", "~Erase the token?", "~Type "+serial, "esc", "~Initialize the token: cancelled")
	if len(r.slots()) != 1 {
		t.Fatal("the token was erased without a yes")
	}
	r.steps("Everything on it is erased", "X")
	r.Walk("enter", "~Type "+serial, `"`+serial+`"`, "enter")
	r.Type("SO PIN", hsmtest.FakePUK)
	r.Walk("~New", `"648219"`, "enter", `"648219"`, "enter", "~the token is initialized")
	if len(r.slots()) != 0 || r.card.PIN() != "648219" {
		t.Errorf("%d keys are left, the PIN is %s", len(r.slots()), r.card.PIN())
	}
}

// TestSOPIN: the SO PIN unblocks the PIN of a PKCS#11 token.
func TestSOPIN(t *testing.T) {
	r := soft(t, false)
	r.Press("P")
	r.Type("SO PIN", hsmtest.FakePUK)
	r.Walk("~New", `"97531864"`, "enter", `"97531864"`, "enter", "~the SO PIN is changed")
	if got := r.card.PUK(); got != "97531864" {
		t.Errorf("the SO PIN is %s", got)
	}
	for k, says := range map[string]string{"M": "management key: only PIV cards have this",
		"t": "attestation: only PIV cards have this"} {
		r.steps(says, k)
	}
	r.steps("A new key on blue", "n")
	r.Press("tab", `"spare"`, "enter")
	r.Type("PIN of", pin)
	r.Sees("the key is made")
	for _, s := range r.slots() {
		if s.Label != "spare" {
			t.Errorf("made: %+v", s)
		}
	}
}

// TestComesBack: a token that is pulled and plugged in again appears without a key press.
func TestComesBack(t *testing.T) {
	r := open(t)
	r.card.Unplug()
	r.Time = r.Time.Add(5 * time.Second)
	r.Sees("The token is not there: plug it in.")
	r.card.Plug()
	r.Time = r.Time.Add(5 * time.Second)
	r.Loses("The token is not there")
	r.Sees("PUK default")
}
