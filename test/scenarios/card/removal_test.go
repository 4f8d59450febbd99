//go:build linux && cgo

package card

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestPulledCard: what is open ends at once, and says why; put in again, the
// card asks for its PIN.
func TestPulledCard(t *testing.T) {
	p := newPerson(t)
	p.own()
	s := p.terminal(p.Binary, "enroll", "--token", p.uri, "--touch-policy", "never", "--user", "jane", "--group",
		lab.DevelopersGroup,
		"--approve-with", p.Cluster.AdminKubeconfig(), "--yes")
	s.Answer(pinPrompt, ownPIN)
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	p.kubectl("get", "namespaces")

	s = p.terminal(p.Cluster.Kubectl(), "get", "namespaces", "--watch")
	s.WaitFor("kube-system")
	p.readers.Remove(t, 0)
	s.WaitFor("closed by the agent: the token was") // the line is longer than the screen
	s.Exit()
	// Streams are cut first; then the token is locked, and then that is written down.
	poll.Until(t, "the audit log tells of the removal", func() bool {
		return strings.Contains(p.ok(p.Kubehsm(t.Context(), "audit")), "removed")
	})
	status := p.ok(p.Kubehsm(t.Context(), "agent", "status"))
	if strings.Contains(status, "unlocked") || strings.Contains(status, "SESSION") {
		t.Errorf("the agent goes on:\n%s", status)
	}

	p.readers.Insert(t, 0, p.card)
	s = p.terminal(p.Cluster.Kubectl(), "get", "namespaces")
	s.Answer(pinPrompt, ownPIN)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("kube-system") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	p.atRest("a lock")
}
