//go:build linux

package scenarios

import (
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

func TestTerminalUIInterruptedAndResumed(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	kubeconfig := u.files(u.Kubeconfig)
	s := u.terminal(u.Binary, "enroll", "--tui", "--user", "jane", "--group", lab.DevelopersGroup)
	s.WaitFor("This is what will be done", "Who      jane")
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 {
		t.Errorf("exit code %d after ctrl-c", code)
	}
	if !s.Cooked() {
		t.Error("the terminal was not restored")
	}
	u.unchanged(kubeconfig, u.Kubeconfig)

	// Begun by command, it is gone on with here.
	s = u.terminal(u.Binary, "enroll", "--user", "jane", "--group", lab.DevelopersGroup, "--yes")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	request, key := u.pending(t), u.fingerprint(t)
	s.Press(term.CtrlC)
	s.Exit()
	u.approve(t, request)
	s = u.terminal(u.Binary)
	s.WaitFor("Resume prod-hsm", "Next: wait for approval")
	s.Press(term.Enter)
	s.WaitFor("This is what will be done", "the request is approved", "enter enroll")
	s.Press(term.Enter)
	answerDialog(s, lab.PIN)
	s.WaitFor("Enrolled: authenticated as jane", request, key[:40]) // the rest is on the next line
	s.Press(term.CtrlC)
	s.Exit()
	if !s.Cooked() {
		t.Error("the terminal was not restored")
	}
}
