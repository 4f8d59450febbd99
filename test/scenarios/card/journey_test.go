//go:build linux && cgo

package card

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// serial is another number than the factory's values, which are digits that other things begin with, too.
const serial = "20481637"

// newTraveller is a person whose card is new, and whose secrets must not be seen.
func newTraveller(t *testing.T) *person {
	t.Helper()
	p := newPersonAt(t, vcard.Config{Serial: 20481637}, nil)
	p.hidden = []string{ownPIN, ownPUK}
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

// TestJourneyCard: a card is enrolled with a key that needs a touch. Then a ticket takes the place of the key, after
// the serial number was typed.
func TestJourneyCard(t *testing.T) {
	p := newTraveller(t)
	must(t, errors.Join(p.Cluster.PublishInfo(t.Context(), p.Cluster.Server()), p.ApplyRoles(t.Context(), "ticket")))
	p.own()
	s := p.ui()
	p.atToken(s)
	p.way(s)
	s.Press(term.Enter)
	lab.Fill(s, "╭─ PIV PIN of", "PIV PIN", ownPIN)
	p.touches(s, "sign the certificate request")
	p.touches(s, "sign the record of the enrollment")
	s.WaitFor("waiting for somebody to approve")
	p.atRest("the request")
	key := p.card.Public(0x9a)
	p.approve(p.request())
	p.tap(s) // the agent signs in
	s.WaitFor("Enrolled: authenticated as jane")
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
	s.WaitFor("PIV • "+serial, "▌   9a", "jane")
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
	p.touches(s, "sign the certificate request")
	p.touches(s, "sign the record of the enrollment")
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
	s := p.terminal(p.Binary, "consent", "set", "prod-hsm", "--policy", "writes", "--yes")
	s.Answer(pinPrompt, ownPIN)
	p.touch(s) // the policy is signed
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	s = p.ui()
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
