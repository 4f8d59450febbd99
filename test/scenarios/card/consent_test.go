//go:build linux && cgo

package card

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/term"
)

// consents sets the consent policy of a key that needs a touch for each use, and signs it so.
func (p *person) consents(policy string) {
	p.t.Helper()
	s := p.terminal(p.Binary, "consent", "set", "prod-hsm", "--policy", policy, "--yes")
	s.Answer(pinPrompt, ownPIN)
	p.touch(s)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("Signed by the key on ") {
		p.t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
}

// TestPolicyIsSignedByTouch: each version of a record takes the PIN, typed for that, and a touch, with the card
// locked before and after; without one of these the policy stays what it was.
func TestPolicyIsSignedByTouch(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	p.consents("writes")
	p.atRest("a stricter policy")
	lower := []string{"consent", "set", "prod-hsm", "--policy", "session", "--yes"}
	p.card.SetTouch(func(byte, <-chan struct{}) bool { return false }) // no touch in time
	s := p.terminal(p.Binary, lower...)
	s.Answer(pinPrompt, ownPIN)
	if code := s.Exit(); code != 124 || !strings.Contains(s.Output(), "was not touched in time") {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	p.card.SetTouch(p.wait)
	p.atRest("a touch that nobody made")
	s = p.terminal(p.Binary, lower...)
	s.WaitFor(pinPrompt, "of the enrollment prod-hsm")
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	p.atRest("ctrl-c")
	if out := p.ok(p.Kubehsm(t.Context(), "consent", "show", "prod-hsm")); !strings.Contains(out, "): writes: ") ||
		!strings.Contains(out, "Signed by the key on ") {
		t.Errorf("not writes:\n%s", out)
	}
	p.consents("session")
	p.atRest("a less strict policy")
}
