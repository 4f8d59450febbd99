//go:build linux && cgo

package card

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// enrollTouched enrolls a key that needs a touch for every use.
func (p *person) enrollTouched() {
	p.t.Helper()
	p.own()
	s := p.terminal(p.Binary, "enroll", "--token", p.uri, "--touch-policy", "always", "--user", "jane", "--group",
		lab.DevelopersGroup,
		"--approve-with", p.Cluster.AdminKubeconfig(), "--yes")
	s.Answer(pinPrompt, ownPIN)
	p.touches(s, "sign the certificate request")
	p.touches(s, "sign the record of the enrollment")
	p.touch(s) // the agent signs in
	if code := s.Exit(); code != 0 {
		p.t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
}

// TestTouchThatNobodyMakes: a sign-in without the touch that the key wants ends,
// is told as what it is, and is asked for anew later.
func TestTouchThatNobodyMakes(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	p.ok(p.Kubehsm(t.Context(), "agent", "stop"))
	p.card.SetTouch(func(byte, <-chan struct{}) bool { return false })
	s := p.terminal("/bin/sh", "-c", "kubectl get namespaces; echo ended $?")
	s.Answer(pinPrompt, ownPIN)
	s.WaitFor("ended 1")
	s.Exit()
	for _, words := range []string{"the token was not touched in time", "hint: touch the token while it blinks",
		"failed with exit code 124"} {
		if !strings.Contains(s.Output(), words) {
			t.Errorf("%q is not in\n%s", words, s.Output())
		}
	}
	if strings.Contains(s.Output(), "cannot reach") {
		t.Errorf("the server is blamed:\n%s", s.Output())
	}
	p.card.SetTouch(p.wait)
	p.ok(p.Kubehsm(t.Context(), "agent", "stop")) // it remembers the refusal
	s = p.terminal(p.Cluster.Kubectl(), "get", "namespaces", "-o", "name")
	s.Answer(pinPrompt, ownPIN)
	p.touch(s)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("namespace/default") {
		t.Errorf("touched at last: exit code %d:\n%s", code, s.Output())
	}
}
