//go:build linux && cgo

package card

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// The factory's values are digits that other things begin with, too: the card
// of a journey has another serial number than they are.
const (
	serial   = "20481637"
	wrongPIN = "61940275"
	nextPIN  = "50273918"
)

// newTraveller is a person whose card is new, and whose secrets must not be seen.
func newTraveller(t *testing.T) *person {
	t.Helper()
	p := newPersonWith(t, vcard.Config{Serial: 20481637})
	p.hidden = []string{ownPIN, ownPUK, wrongPIN, nextPIN}
	p.KeepSecret(t, p.hidden...)
	return p
}

// ui opens the terminal UI.
func (p *person) ui() *term.Session {
	p.t.Helper()
	s := term.Run(p.t, term.Options{Path: p.Binary, Dir: p.Dir, Env: p.Env(), Secrets: p.hidden, Columns: 100, Rows: 34})
	lab.AtTokens(s)
	s.WaitFor(serial)
	return s
}

// atToken opens the card's screen.
func (p *person) atToken(s *term.Session) {
	p.t.Helper()
	s.Type("/" + serial)
	s.WaitGone(lab.Token + "  ")
	s.Press(term.Enter, term.Enter)
	s.WaitFor("PIV • "+serial, "p change PIN", "▌   9a")
}

// tap waits until the terminal UI says that a touch is wanted and the card wants
// it, and then touches the card.
func (p *person) tap(s *term.Session) {
	p.t.Helper()
	s.WaitFor("Waiting for your touch")
	p.finger(s)
	s.WaitGone("Waiting for your touch")
}

// TestJourneyAdministration: the three secrets of a new card are changed, a PIN
// is locked and set anew with the PUK, tries are set, and in the end the card is
// as new.
func TestJourneyAdministration(t *testing.T) {
	p := newTraveller(t)
	s := p.ui()
	p.atToken(s)
	s.WaitFor("default, 3 of 3 tries left")
	s.Type("p")
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", wrongPIN)
	lab.Fill(s, "New PIV PIN of", "PIV PIN", ownPIN)
	lab.Fill(s, "New PIV PIN of", "Repeat it", ownPIN)
	s.WaitFor("✗ ", "2 tries left")
	if pin, _ := p.card.PINRetries(); pin != 2 {
		t.Errorf("%d tries are left", pin)
	}
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", vcard.DefaultPIN) // the new one is remembered
	s.WaitFor("the PIN is changed")

	s.Type("P")
	s.WaitFor("A new PUK", "● is typed")
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PUK of", "PUK", vcard.DefaultPUK)
	lab.Fill(s, "New PUK of", "PUK", ownPUK)
	lab.Fill(s, "New PUK of", "Repeat it", ownPUK)
	s.WaitFor("the PUK is changed")
	s.Type("M")
	s.WaitFor("A new management key", "● on the card")
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	s.WaitFor("the management key is replaced")
	s.WaitGone("default")
	p.atRest("the change of its secrets")
	if _, key := p.card.ManagementKey(); bytes.Equal(key, vcard.DefaultManagementKey()) || !p.card.CheckPIN(ownPIN) ||
		!p.card.CheckPUK(ownPUK) {
		t.Error("the card has other secrets than were set")
	}

	// A key, and tries that are fewer.
	s.Type("n")
	s.WaitFor("A new key in slot 9a", "● ecdsa-p256")
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	s.WaitFor("the key is made", "ecdsa-p256")
	s.Type("t")
	s.WaitFor("What the token says of the key in slot 9a", serial+", firmware 5.7.1", "touch never", "NOT verified")
	s.Press(term.Escape)
	s.WaitGone("What the token says")
	s.Type("T")
	s.WaitFor("How many tries?", "PIN", "PUK")
	s.Press(term.CtrlU)
	s.Type("99")
	s.Press(term.Enter)
	s.WaitFor("✗ a number from 1 to 15")
	s.Press(term.CtrlU)
	s.Type("2")
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	lab.Fill(s, "New PUK of", "PUK", ownPUK)
	lab.Fill(s, "New PUK of", "Repeat it", ownPUK)
	s.WaitFor("the number of tries is set", "PIN 2 of 2 tries")
	p.atRest("the change of the tries")

	// Locked, and set anew.
	s.Type("p")
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", wrongPIN)
	lab.Fill(s, "New PIV PIN of", "PIV PIN", nextPIN)
	lab.Fill(s, "New PIV PIN of", "Repeat it", nextPIN)
	s.WaitFor("Use the last try?", "▌ No")
	lab.Insist(s, "y", "the yes is taken", lab.Shows("The last try: a wrong PIV PIN blocks it."))
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", wrongPIN)
	s.WaitFor("✗ error: wrong PIV PIN: it is blocked now", "PIN blocked")
	s.Press(term.Escape)
	s.WaitGone("✗ error: ")
	s.Type("u")
	lab.Fill(s, "╭─ PUK of", "PUK", ownPUK)
	lab.Fill(s, "New PIV PIN of", "PIV PIN", nextPIN)
	lab.Fill(s, "New PIV PIN of", "Repeat it", nextPIN)
	s.WaitFor("the new PIN is set", "PIN 2 of 2 tries")
	if !p.card.CheckPIN(nextPIN) {
		t.Error("the PIN is another")
	}
	p.atRest("the new PIN")

	// As new, but only for who types which card it is.
	s.Type("X")
	s.WaitFor("Reset the PIV application of", "What remains: the attestation key", "9a: key ecdsa-p256",
		"Type "+serial+" to confirm:")
	lab.Insist(s, "1", "the dialog takes keys", lab.Shows("› 1"))
	s.Press(term.Enter)
	s.Press(term.CtrlU)
	s.WaitUntil("the field is empty", func(f term.Frame) bool { return !f.Contains("› 1") })
	if p.card.Public(0x9a) == nil {
		t.Fatal("reset without the serial number")
	}
	s.Type(serial)
	s.Press(term.Enter)
	s.WaitFor("the PIV application is reset", "default, 3 of 3 tries left")
	if p.card.Public(0x9a) != nil || !p.card.CheckPIN(vcard.DefaultPIN) {
		t.Error("the card is not as new")
	}
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	p.atRest("all of it")
}

// approve is done by the cluster's admin.
func (p *person) approve(request string) {
	p.t.Helper()
	if _, err := p.Cluster.Admin(p.t.Context(), "", "certificate", "approve", request); err != nil {
		p.t.Fatal(err)
	}
}

// way chooses policies and user in the review of an enrollment in the slot.
func (p *person) way(s *term.Session) {
	p.t.Helper()
	s.Type("e")
	s.WaitFor("new, ecdsa-p256, in slot 9a, touch cached", "Change: u user")
	s.Type("s")
	s.WaitFor("A new key, or an existing one?")
	s.Press(term.Enter)
	s.WaitFor("Settings of the new key", "● ecdsa-p256")
	s.Press(term.Tab, term.Tab)
	s.WaitFor("▌ Touch", "● cached")
	s.Press(term.Down)
	s.WaitFor("● always")
	s.Press(term.Enter)
	s.WaitFor("touch always", "Change: u user")
	s.Type("u")
	s.WaitFor("Who is it for?")
	s.Type("jane")
	s.Press(term.Tab)
	s.Type(lab.DevelopersGroup)
	s.Press(term.Enter)
	s.WaitFor("new, ecdsa-p256, in slot 9a, touch always")
}

// TestJourneyCard: a card as it comes from the shop is proposed with secrets of one's own,
// made one's own elsewhere, and enrolled with a key that needs a touch; the enrollment is left half-way and
// gone on with. Then a ticket takes the place of the key, after the serial
// number was typed.
func TestJourneyCard(t *testing.T) {
	p := newTraveller(t)
	must(t, errors.Join(p.Cluster.PublishInfo(t.Context(), p.Cluster.Server()), p.ApplyRoles(t.Context(), "ticket")))
	s := p.ui()
	p.atToken(s)
	p.way(s)
	s.WaitFor("on the token: your own PIN", "random PUK", "enter enroll")
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	p.own()
	s = p.ui()
	p.atToken(s)
	p.way(s)
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	p.tap(s) // the request is signed
	s.WaitFor("waiting for somebody to approve")
	p.atRest("the request")
	s.Press(term.Escape)
	s.WaitFor("Stop here?")
	lab.Insist(s, "y", "it is stopped", lab.Shows("Finished steps are kept. r resumes"))
	s.Type("q")
	s.Exit()
	key := p.card.Public(0x9a)

	s = p.ui()
	s.Type("R")
	s.WaitFor("Resume prod-hsm", "Next: wait for approval")
	s.Press(term.Enter)
	s.WaitFor("This is what will be done", "enter enroll")
	s.Press(term.Enter)
	s.WaitFor("(done before)", "waiting for somebody to approve")
	p.approve(p.request())
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	p.tap(s) // the agent signs in
	s.WaitFor("Enrolled: authenticated as jane")
	if now, ok := p.card.Public(0x9a).(*ecdsa.PublicKey); !ok || !now.Equal(key) {
		t.Error("the key is another one")
	}
	if out := p.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}

	// The slot is given up for a ticket.
	var made struct{ Tickets []struct{ Ticket string } }
	admin := lab.Run{Env: []string{"KUBECONFIG=" + p.Cluster.AdminKubeconfig()}}
	out := p.ok(p.Run(t.Context(), admin, p.Binary, "helpdesk", "ticket", "--for", "jill", "--group", lab.DevelopersGroup,
		"--name", "prod-card", "--serial", serial, "-o", "json"))
	must(t, json.Unmarshal([]byte(out), &made))
	s.Press(term.Enter)
	s.WaitFor("1 Tokens", "jane")
	s.Type("/" + serial)
	s.WaitGone(lab.Token + "  ")
	s.Press(term.Enter)
	s.WaitGone("esc clear")
	s.Type("e")
	s.WaitFor("Change: u user")
	s.Type("s")
	s.WaitFor("A new key, or an existing one?", "Slot 9a  reuse its ecdsa-p256 key")
	s.Type("go")
	s.WaitFor("Overwrite slot 9a?", "certificate for jane", "Type "+serial+" to confirm:")
	s.Type("1")
	s.Press(term.Enter)
	s.WaitFor("› 1")
	s.Press(term.CtrlU)
	s.Type(serial)
	s.Press(term.Enter)
	s.WaitFor("Settings of the new key")
	s.Press(term.Enter)
	s.WaitFor("o cluster", "u user")
	s.Type("o")
	s.WaitFor("Which cluster is the key for?", "Join with a ticket")
	s.Type("G")
	s.WaitFor("▌ Join with a ticket")
	s.Press(term.Enter)
	lab.Fill(s, "╭─ Ticket", "ticket", made.Tickets[0].Ticket)
	s.WaitFor("This is what will be done", "(ticket ", "Who      jill", "new, ", "in slot 9a")
	if now, ok := p.card.Public(0x9a).(*ecdsa.PublicKey); !ok || !now.Equal(key) {
		t.Error("the key is gone before it was agreed to")
	}
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	p.tap(s)
	s.WaitFor("waiting for somebody to approve", "the key's words are:")
	p.approve(p.pendingFor("jill"))
	p.tap(s)
	s.WaitFor("Enrolled: authenticated as jill")
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	if now, ok := p.card.Public(0x9a).(*ecdsa.PublicKey); !ok || now.Equal(key) {
		t.Error("the slot was not overwritten")
	}
	if out := p.kubectl("--context", "prod-card", "auth", "whoami", "-o",
		"jsonpath={.status.userInfo.username}"); out != "jill" {
		t.Errorf("kubectl is %q", out)
	}
	p.atRest("all of it")
}

// TestJourneyActivity: while the terminal UI is open, kubectl that nobody could
// ask anything runs elsewhere: its PIN, its touches and its changes are asked
// for here, and are on record.
func TestJourneyActivity(t *testing.T) {
	p := newTraveller(t)
	p.enrollTouched()
	p.consents("writes")
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	s := p.ui()
	s.Type("4")
	s.WaitFor("all locked")
	asked := make(chan lab.Result, 1)
	kubectl := func(args ...string) {
		go func() {
			res, err := p.Kubectl(t.Context(), args...)
			if err != nil {
				t.Error(err)
			}
			asked <- res
		}()
	}
	kubectl("get", "namespaces", "-o", "name")
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	p.tap(s)
	if res := <-asked; res.Code != 0 || !strings.Contains(res.Stdout, "namespace/default") {
		t.Error(res)
	}
	s.WaitFor("1 token unlocked", "unlock", "signature", "kubectl ")

	kubectl("create", "configmap", "from-afar", "-o", "name")
	s.WaitFor("create configmaps", "No  n")
	lab.Insist(s, "n", "the no is taken", func(f term.Frame) bool { return !f.Contains("No  n") })
	if res := <-asked; res.Code == 0 {
		t.Errorf("made without a yes: %s", res)
	}
	kubectl("create", "configmap", "from-afar", "-o", "name")
	s.WaitFor("create configmaps", "Yes  y")
	lab.Insist(s, "y", "the yes is taken", lab.Shows("Waiting for your touch"))
	p.tap(s)
	if res := <-asked; res.Code != 0 {
		t.Error(res)
	}
	s.WaitFor("consent", "granted", "refused")

	s.Type("L")
	s.WaitFor("locked: the next command asks for the PIN") // until then the agent asks elsewhere
	s.WaitFor("all locked")
	p.atRest("a lock")
	kubectl("get", "namespaces")
	s.WaitFor("╭─ PIV PIN of")
	lab.Insist(s, string(term.Escape), "the dialog is cancelled",
		func(f term.Frame) bool { return !f.Contains("╭─ PIV PIN of") })
	if res := <-asked; res.Code == 0 {
		t.Errorf("signed in without a PIN: %s", res)
	}
	s.WaitFor("unlock       cancelled")
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	if pin, _ := p.card.PINRetries(); pin != 3 {
		t.Errorf("%d tries are left", pin)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
