//go:build linux

package scenarios

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestJourneyDoctor: what is wrong is found, read and repaired, and who only looks changes nothing.
func TestJourneyDoctor(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.KeepSecret(t, u.secrets...)
	must(t, os.Chmod(u.Kubeconfig, 0o644))
	s := u.sh("NO_COLOR=1 exec " + u.Binary + " --read-only")
	lab.AtTokens(s)
	s.WaitFor("1 Tokens", "lab", "PIN set", "read-only")
	s.Press("\x10") // ctrl-p
	s.WaitFor("Commands")
	s.Type("doct")
	s.WaitFor("go to Doctor")
	s.Press(term.Enter)
	s.WaitFor("can sign in", "other users may read it")
	s.Type("?")
	s.WaitFor("Everywhere", "look again")
	s.Press(term.Escape)
	s.WaitGone("Everywhere")
	s.Type("/mode 0644")
	s.WaitFor("To mend it: chmod 600 ")
	s.Press(term.Enter)
	s.WaitGone("esc clear")
	must(t, os.Chmod(u.Kubeconfig, 0o600))
	before := u.files(append(u.enrollments(), u.Kubeconfig, u.Soft.Tokens)...)
	s.Type("r")
	s.WaitFor("Nothing matches.")
	s.Press(term.Escape)
	s.WaitGone("Nothing matches.")
	if s.Frame().Cells[2][2].Foreground != nil {
		t.Error("a colour in spite of NO_COLOR")
	}
	s.Type("x")
	s.WaitFor("The same by command")
	s.Press(term.Escape)
	s.WaitGone("The same by command")
	s.Type("1")
	s.WaitFor("e enroll")
	s.Press(term.Enter)
	s.WaitFor("esc back")
	s.Type("p")
	s.WaitFor("change PIN: read-only mode")
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	u.unchanged(before, append(u.enrollments(), u.Kubeconfig, u.Soft.Tokens)...)
}
