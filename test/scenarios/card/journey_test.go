//go:build linux && cgo

package card

import (
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
