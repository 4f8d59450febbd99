//go:build linux

package scenarios

import (
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestJourneyContexts: a context whose key lies in the kubeconfig moves to the
// token; the old one is taken out, brought back, and taken out for good, each
// time after a look at the difference.
func TestJourneyContexts(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.KeepSecret(t, u.secrets...)
	whoami := []string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"}
	s := u.screen("2")
	s.WaitFor("● "+lab.Context, "! embedded key")
	s.Type("w")
	s.WaitFor("renew: it is not kubehsm's")
	s.Type("m")
	s.WaitFor("When the new context works")
	s.Press(term.Enter)
	s.WaitFor("This is what will be done", "Who      "+lab.Filer+", in "+lab.FilersGroup, "enter enroll")
	s.Press(term.Enter)
	answerDialog(s, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	u.approve(t, u.pending(t))
	s.WaitFor("Enrolled: authenticated as " + lab.Filer)
	s.Press(term.Enter)
	s.WaitFor("● "+enrolled, lab.Context)
	if out := u.kubectl(whoami...); out != lab.Filer {
		t.Errorf("kubectl is %q", out)
	}

	// The old one goes, comes back, and goes.
	s.Type("g")
	s.WaitFor("File     ")
	s.Type("D")
	s.WaitFor("Remove prod?", "▌ No", "-- context:")
	lab.Insist(s, string(term.Enter), "no is taken", lab.Shows("Remove the context: cancelled"))
	out := func() {
		t.Helper()
		s.WaitGone("the context is removed") // the earlier notice
		s.Type("D")
		s.WaitFor("Remove prod?")
		lab.Insist(s, "y", "the yes is taken", lab.Shows("the context is removed"))
		s.WaitFor("● " + enrolled)
		s.WaitGone("embedded key")
	}
	out()
	if text := u.kubeconfig(); strings.Contains(text, "client-key-data") || !strings.Contains(text, "keep this line") {
		t.Errorf("the kubeconfig:\n%s", text)
	}
	s.Type("u")
	s.WaitFor("Undo this?", "+- cluster:")
	lab.Insist(s, "y", "the yes is taken", lab.Shows("is undone"))
	s.WaitFor("! embedded key")
	if out := u.kubectl(append([]string{"--context", lab.Context}, whoami...)...); out != lab.Filer {
		t.Errorf("the old context, brought back, is %q", out)
	}
	s.Type("g")
	out()
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	if text := u.kubeconfig(); strings.Contains(text, "client-key-data") {
		t.Errorf("the old key is still in the kubeconfig:\n%s", text)
	}
	if out := u.kubectl(whoami...); out != lab.Filer {
		t.Errorf("kubectl is %q", out)
	}
	u.nothingHalfWritten()
}

// kubeconfig is the text of the user's.
func (u *user) kubeconfig() string {
	u.t.Helper()
	b, err := os.ReadFile(u.Kubeconfig)
	must(u.t, err)
	return string(b)
}
