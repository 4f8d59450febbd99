//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestSuspendedAtThePrompt: kubectl, stopped by ctrl-z while the PIN is asked for,
// leaves the terminal to the shell, and asks again where it is continued.
func TestSuspendedAtThePrompt(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop")
	s := u.terminal("/bin/bash", "--norc", "-i")
	s.Type("PS1='$ '; kubectl get namespaces -o name; echo code $?\r")
	s.WaitFor(pinPrompt)
	if err := s.TypeSecret(lab.PIN[:8]); err != nil { // not finished
		t.Fatal(err)
	}
	s.Press(term.CtrlZ)
	s.WaitFor("Stopped")
	s.Type("echo between\r")
	s.WaitFor("$ echo between\nbetween") // with its echo
	s.Type("fg\r")
	s.WaitUntil("the PIN is asked for again", func(f term.Frame) bool {
		_, after, _ := strings.Cut(f.Text(), "\nbetween")
		return strings.Contains(after, pinPrompt)
	})
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("namespace/default", "namespace/kube-system")
	s.Type("echo after\r")
	s.WaitFor("$ echo after\nafter")
	s.Type("exit\r")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := u.agentStatus(); s.Signatures != 1 {
		t.Errorf("%d signatures", s.Signatures)
	}
}
