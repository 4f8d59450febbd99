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
	if policy == "session" { // a stricter one is signed with the token that the agent holds
		s.Answer(pinPrompt, ownPIN)
	}
	p.touch(s)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("Signed by the key: version ") {
		p.t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
}

// TestPolicyIsSignedByTouch: each version of a policy takes a touch. A lower one takes the PIN
// too, typed for that, with the card locked before and after; without one of these the policy
// stays what it was.
func TestPolicyIsSignedByTouch(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	p.consents("writes")
	p.atRest("a stricter policy")
	holds := func(policy, version string) {
		t.Helper()
		out := p.ok(p.Kubehsm(t.Context(), "consent", "show", "prod-hsm"))
		if !strings.Contains(out, "): "+policy+": ") || !strings.Contains(out, "Signed by the key: version "+version+",") {
			t.Errorf("not %s in version %s:\n%s", policy, version, out)
		}
	}
	res, err := p.KubehsmPIN(t.Context(), ownPIN, "consent", "set", "prod-hsm", "--policy", "session", "--yes")
	if err != nil || res.Code != 5 ||
		!strings.Contains(res.Stderr, "type the token's PIN: run the command in a terminal") {
		t.Errorf("a PIN that nobody typed: %v, %s", err, res)
	}
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
	s.WaitFor(pinPrompt, "lower the consent policy")
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	p.atRest("ctrl-c")
	holds("writes", "1")
	p.consents("session")
	p.atRest("a less strict policy")
	holds("session", "2")
	out := p.ok(p.Kubehsm(t.Context(), "audit"))
	if !strings.Contains(out, "set, writes, was session, signed as version 1") ||
		!strings.Contains(out, "set, session, was writes (less strict), signed as version 2") {
		t.Errorf("the audit log:\n%s", out)
	}
}
