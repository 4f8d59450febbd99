//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestJourneyEnrollWithWrongTurns: the way through the wizard and back again, a
// PIN that is not given and one that is wrong, an enrollment that is stopped and
// gone on with; nothing is done before it was agreed to, and nothing twice.
func TestJourneyEnrollWithWrongTurns(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.KeepSecret(t, u.secrets...)
	before := u.files(append(u.enrollments(), u.Kubeconfig, u.Soft.Tokens)...)
	s := u.terminal(u.Binary)
	wizard(s)

	// Every page and back again; what was chosen is kept, and the context's user is proposed.
	s.Type("s")
	s.WaitFor("A new key, or an existing one?", "Generate a new key")
	s.Press(term.Enter)
	s.WaitFor("Settings of the new key", "● ecdsa-p256")
	s.Press(term.Down)
	s.WaitFor("● ecdsa-p384")
	s.Press(term.Escape)
	s.WaitFor("A new key, or an existing one?")
	s.Press(term.Escape)
	s.WaitFor("new, ecdsa-p384")
	s.Type("o")
	s.WaitFor("Which cluster is the key for?", "▌ "+lab.Context, "https://")
	s.Press(term.Escape)
	s.WaitFor("Change: u user")
	s.Type("u")
	s.WaitFor("Who is it for?", "jane", lab.DevelopersGroup)
	s.Press(term.BackTab, term.CtrlU)
	s.WaitFor("jane@sso")
	s.Type("jane")
	s.WaitGone("jane@sso")
	s.Press(term.Escape)
	s.WaitFor("This is what will be done", "new, ecdsa-p384", "Who      jane, in "+lab.DevelopersGroup, "enter enroll")
	u.unchanged(before, append(u.enrollments(), u.Kubeconfig, u.Soft.Tokens)...)

	// A PIN that is not given leaves everything as it is.
	s.Press(term.Enter)
	s.WaitFor("PIN of lab", "esc cancel")
	lab.Insist(s, string(term.Escape), "the dialog is cancelled", lab.Shows("r tries again, esc"))
	s.WaitFor("Not finished", "✗ key on the token")
	if len(u.keys()) != 0 {
		t.Error("a key was made without the PIN")
	}
	s.Type("r")
	answerDialog(s, wrongPIN)
	s.WaitFor("✗ wrong PIN")
	answerDialog(s, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	request := u.pending(t)

	// Whoever wants to leave is asked; no is what enter means.
	s.Type("q")
	s.WaitFor("Leave?", "▌ No")
	s.Press(term.Enter)
	s.WaitGone("Leave?")
	s.Press(term.Escape)
	s.WaitFor("Stop here?", "can be resumed at any")
	s.Type("y")
	s.WaitFor("Stopped", "Finished steps are kept")
	s.Type("q")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	key := u.fingerprint(t)

	s = u.terminal(u.Binary)
	s.WaitFor("Resume prod-hsm", "jane on prod", "Next: wait for approval")
	s.Press(term.Enter)
	s.WaitFor("This is what will be done", "enter enroll")
	s.Press(term.Enter)
	s.WaitFor("file the request", "(done before)", "waiting for somebody to approve")
	if again := u.pending(t); again != request {
		t.Errorf("another request, %s after %s", again, request)
	}
	u.approve(t, request)
	answerDialog(s, lab.PIN)
	s.WaitFor("Enrolled: authenticated as jane", request, key[:40])
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	if u.fingerprint(t) != key {
		t.Error("the key is another one")
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
	if out := u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "key", "list")); strings.Count(out, "ecdsa-p384") != 1 {
		t.Errorf("the keys: %s", out)
	}
	u.nothingHalfWritten()
}

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
