//go:build linux

package scenarios

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestJourneyRequests: an approver looks at what somebody asks for who would
// become admin of everything, denies it and says why; and approves what is
// harmless. Whoever asked is told both.
func TestJourneyRequests(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.KeepSecret(t, u.secrets...)
	const reason = "ask for developers only"
	rulers := unique("rulers")
	u.admin("create", "clusterrolebinding", rulers, "--clusterrole=cluster-admin", "--group="+rulers)
	s := u.screen("3", "--kubeconfig", u.Cluster.AdminKubeconfig())
	s.WaitFor("live")

	jane := u.terminal(u.Binary, "enroll", "--user", "jane", "--group", rulers, "--yes")
	jane.Answer(pinPrompt, lab.PIN)
	jane.WaitFor("waiting for somebody to approve")
	greedy := u.pending(t)
	s.Type("/" + greedy)
	s.WaitFor("1 request of ", rulers, lab.Filer)
	s.Press(term.Enter, term.Enter)
	s.WaitFor("Where the key is", "What the certificate would allow", "cluster-admin", lab.Filer,
		"none: only the requester says that the key is in a token")
	s.Type("d")
	s.WaitFor("Deny it, for good?", "Message", "decision")
	s.Press(term.Escape)
	s.WaitGone("Deny it, for good?")
	if state := u.admin("get", "csr", greedy, "-o", "jsonpath={.status.conditions}"); state != "" {
		t.Errorf("decided without an answer: %s", state)
	}
	s.Type("d")
	s.WaitFor("Deny it, for good?")
	s.Type(reason)
	s.Press(term.Enter)
	s.WaitFor(greedy+": denied", "denied (", reason)
	s.Type("a")
	s.WaitFor("approve: it is denied")
	s.Type("x")
	s.WaitFor("Done before", "kubehsm csr deny "+greedy)
	s.Press(term.Escape)
	s.WaitGone("Done before")
	if code := jane.Exit(); code != 1 || !strings.Contains(jane.Output(), reason) {
		t.Errorf("whoever asked has exit code %d and reads:\n%s", code, jane.Output())
	}
	if state := u.admin("get", "csr", greedy, "-o", "jsonpath={.status.conditions[*].type}"); state != "Denied" {
		t.Errorf("the request is %q", state)
	}

	// What is filed meanwhile is told on any screen.
	own := u.told(s, "asks for a certificate for kim", func() string {
		name := unique("own")
		if res := u.newDesk("").kubectl(requestFor(t, name, "kim", "", time.Hour), "create", "-f", "-"); res.Code != 0 {
			t.Fatal(res)
		}
		return name
	})
	modest := u.told(s, "asks for a certificate for bob", func() string {
		name := unique("modest")
		if res := u.newDesk(unique("bob"), lab.FilersGroup).kubectl(requestFor(t, name, "bob", "", time.Hour,
			lab.DevelopersGroup), "create", "-f", "-"); res.Code != 0 {
			t.Fatal(res)
		}
		return name
	})
	s.Press(term.Escape)
	s.WaitFor("2 Contexts", "/ "+greedy)
	s.Press(term.Escape)
	s.WaitGone("/ " + greedy)
	s.Type("/" + modest)
	s.WaitFor("1 request of ", "bob")
	s.Press(term.Enter, term.Enter)
	s.WaitFor("What the certificate would allow")
	s.Type("a")
	s.WaitFor("Approve it?", "bob in "+lab.DevelopersGroup, "none: only the requester says that the key is in a token")
	s.Press(term.Enter)
	s.WaitFor("that does not match: type the eight words")
	s.Type("bob")
	s.Press(term.Enter)
	s.WaitFor(modest+": approved", "issued (")
	s.Press(term.Escape)
	s.WaitFor("2 Contexts", "/ "+modest)
	s.Press(term.Escape)
	s.WaitGone("/ " + modest)
	s.Type("/" + own) // another person approves one's own request
	s.WaitFor("1 request of ", "kim")
	s.Press(term.Enter, term.Enter)
	s.WaitFor("What the certificate would allow")
	s.Type("a")
	s.WaitFor("Approve it?", "A certificate for kim", "Because of the warnings")
	s.Type("kim")
	s.Press(term.Enter)
	s.WaitFor("is your own", "let somebody else look at it")
	s.Press(term.Escape)
	s.WaitGone("is your own")
	s.WaitFor("State ", "pending")
	s.Press(term.Escape)
	s.WaitFor("2 Contexts")
	s.Type("q")
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
}

// told has file file a request, and returns its name once s shows words about it.
// One that comes in the same moment as another test's is only counted; then file
// is asked for one more.
func (u *user) told(s *term.Session, words string, file func() (name string)) (name string) {
	u.t.Helper()
	for range 6 {
		name = file()
		ctx, cancel := context.WithTimeout(u.t.Context(), poll.Patience/6)
		err := s.Terminal.Wait(ctx, lab.Shows(words))
		cancel()
		if err == nil {
			return name
		}
	}
	u.t.Fatalf("%q is never shown; the screen:\n%s", words, s.Screen())
	return ""
}
