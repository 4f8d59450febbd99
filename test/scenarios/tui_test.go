//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// answerDialog types a PIN into the terminal UI's dialog.
func answerDialog(s *term.Session, pin string) { lab.Fill(s, "PIN of lab", "PIN", pin) }

// wizard names a user in the review, which comes first where nothing is enrolled.
func wizard(s *term.Session) {
	s.WaitFor("This is what will be done", "Change: u user")
	s.Type("u")
	s.WaitFor("Groups")
	s.Type("jane")
	s.Press(term.Tab)
	s.Type(lab.DevelopersGroup)
	s.WaitFor("jane", lab.DevelopersGroup)
	s.Press(term.Enter)
	s.WaitFor("This is what will be done", "Who      jane, in "+lab.DevelopersGroup, "new, ecdsa-p256", "prod-hsm",
		"enter enroll")
}

func TestEnrollInTheTerminalUI(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	s := u.terminal(u.Binary)
	wizard(s)
	kubeconfig, tokens := u.files(u.Kubeconfig), u.files(u.Soft.Tokens)
	u.unchanged(kubeconfig, u.Kubeconfig)
	u.unchanged(tokens, u.Soft.Tokens)
	s.Press(term.Enter)
	answerDialog(s, wrongPIN)
	s.WaitFor("wrong PIN")
	answerDialog(s, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	s.Resize(60, 15)
	s.WaitFor("wait for approval")
	s.Resize(100, 30)
	u.approve(t, u.pending(t))
	s.WaitFor("Enrolled: authenticated as jane", "developers", "kubectl --context prod-hsm auth whoami")
	s.Press(term.Enter)
	s.WaitFor("e enroll", "jane", "prod-hsm") // the token has a key and a certificate now
	s.Type("q")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !s.Cooked() {
		t.Error("the terminal was not restored")
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
	u.nothingHalfWritten()
}

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

// TestNoTerminalForTheUI has help instead of a screen full of escape sequences.
func TestNoTerminalForTheUI(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	out := u.kubehsm()
	if !strings.Contains(out, "kubehsm enroll") || strings.Contains(out, "\x1b") {
		t.Errorf("without a terminal: %q", out)
	}
}
