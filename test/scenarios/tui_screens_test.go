//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// screen opens the terminal UI and goes to the screen with a number.
func (u *user) screen(number string, args ...string) *term.Session {
	u.t.Helper()
	s := u.terminal(u.Binary, args...)
	lab.AtTokens(s)
	s.WaitFor("lab", "PIN set")
	s.Type(number)
	return s
}

// TestLineMode: on a terminal that places no cursor the commands for plain lines are named.
func TestLineMode(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	s := u.sh("TERM=dumb " + u.Binary + "; echo code $?")
	s.WaitFor("token list", "lists all commands", "code 0")
	s.Exit()
	if strings.Contains(s.Output(), "\x1b") {
		t.Errorf("an escape sequence: %q", s.Output())
	}
}

// TestApproveInTheTerminalUI: somebody with the right to it looks at a request
// that comes in, compares a wrong word, and approves it.
func TestApproveInTheTerminalUI(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	s := u.screen("3", "--kubeconfig", u.Cluster.AdminKubeconfig())
	s.WaitFor("live")
	jane := u.terminal(u.Binary, "enroll", "--user", "jane", "--group", lab.DevelopersGroup, "--yes")
	jane.Answer(pinPrompt, lab.PIN)
	jane.WaitFor("waiting for somebody to approve")
	request := u.pending(t)
	s.Type("/" + request)
	s.WaitFor("1 request of ")
	s.Press(term.Enter, term.Enter)
	s.WaitFor("Where the key is", "none: only the requester says that the key is in a token", "What the certificate would allow",
		"a approve")
	s.Type("a")
	s.WaitFor("Approve it?")
	s.Type("zebra")
	s.Press(term.Enter)
	s.WaitFor("that does not match: type the eight words")
	s.Press(term.CtrlU)
	s.Type("jane")
	s.Press(term.Enter)
	s.WaitFor(request+": approved", "issued (")
	jane.WaitFor("Enrolled: authenticated as jane")
	s.Type("a")
	s.WaitFor("approve: it is issued")
	s.Press(term.Escape)
	s.WaitFor("2 Contexts") // esc and a letter at once would be alt and that letter
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
}

// TestConsentInTheTerminalUI: what kubectl wants to change while the terminal
// UI is open, and nobody sits at kubectl's terminal, is asked there.
func TestConsentInTheTerminalUI(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("front")
	u.admin("create", "namespace", namespace)
	u.consents("writes")
	u.unlock()
	s := u.screen("4")
	s.WaitFor("1 token unlocked")
	asked := make(chan lab.Result, 1)
	kubectl := func() {
		res, err := u.Kubectl(t.Context(), "-n", namespace, "create", "configmap", "from-afar", "-o", "name")
		if err != nil {
			t.Error(err)
		}
		asked <- res
	}
	go kubectl()
	s.WaitFor("create configmaps", "No  n")
	lab.Insist(s, "n", "the no is taken", func(f term.Frame) bool { return !f.Contains("No  n") })
	if res := <-asked; res.Code == 0 {
		t.Errorf("made without a yes: %s", res)
	}
	go kubectl()
	s.WaitFor("Yes  y")
	lab.Insist(s, "y", "the yes is taken", func(f term.Frame) bool { return !f.Contains("Yes  y") })
	if res := <-asked; res.Code != 0 {
		t.Error(res)
	}
	s.WaitFor("consent", "granted")
	s.Type("L")
	s.WaitFor("locked: the next command asks for the PIN") // until then keys are the dialog's
	s.WaitFor("all locked")
	s.Type("q")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
