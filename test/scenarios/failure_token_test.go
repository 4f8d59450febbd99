//go:build linux

package scenarios

import (
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

const wrongPIN = "5550001112"

func TestWrongPIN(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	kubeconfig := u.files(u.Kubeconfig)
	res := u.ran(u.KubehsmPIN(t.Context(), wrongPIN, u.enrollArgs()...))
	u.wantFailure(res, 4, "--pin-fd and is tried only once", "wrong PIN")
	u.unchanged(kubeconfig, u.Kubeconfig)
	u.nothingHalfWritten()
	if keys := u.keys(); len(keys) != 0 {
		t.Errorf("objects on the token after a wrong PIN: %q", keys)
	}
	if n := strings.Count(res.Stderr, "wrong PIN"); n != 1 {
		t.Errorf("a wrong PIN from a descriptor was spoken of %d times", n)
	}
	u.enroll() // nothing is lost: the same command goes on

	t.Run("three times", func(t *testing.T) {
		u := u.in(t)
		u.kubehsm("agent", "lock")
		state, kubeconfig, tokens := u.files(u.enrollments()...), u.files(u.Kubeconfig), u.files(u.keys()...)
		s := u.terminal(u.Binary, "unlock", enrolled)
		s.Answer(pinPrompt, wrongPIN)
		for i, wrong := range []string{"5550001113", "5550001114"} {
			s.WaitUntil("it is asked for again", func(term.Frame) bool {
				return strings.Count(s.Output(), "Wrong PIN") > i
			})
			s.Answer("Wrong PIN", wrong)
		}
		if code := s.Exit(); code != 4 {
			t.Errorf("exit code %d", code)
		}
		if text := s.Screen(); !strings.Contains(text, "error: ") || !strings.Contains(text, "wrong PIN") {
			t.Errorf("the screen:\n%s", text)
		}
		if !s.Cooked() {
			t.Error("the terminal was not restored")
		}
		u.unchanged(state, u.enrollments()...)
		u.unchanged(kubeconfig, u.Kubeconfig)
		u.unchanged(tokens, u.keys()...)
	})
}

// unplug takes the tokens away and returns what brings them back.
func (u *user) unplug() (plug func()) {
	u.t.Helper()
	away := u.Soft.Tokens + ".away"
	must(u.t, os.Rename(u.Soft.Tokens, away))
	must(u.t, os.Mkdir(u.Soft.Tokens, 0o700))
	return func() {
		u.t.Helper()
		must(u.t, os.RemoveAll(u.Soft.Tokens))
		must(u.t, os.Rename(away, u.Soft.Tokens))
	}
}

func TestUnpluggedToken(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	// Between the request and its approval.
	s := u.terminal(u.Binary, "enroll", "--user", "jane", "--group", lab.DevelopersGroup)
	s.WaitFor("Begin? [Y/n, d for details]")
	s.Type("d\r")
	s.WaitFor("The same by command:", "Begin? [Y/n]")
	s.Type("y\r")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("waiting for somebody to approve")
	request := u.pending(t)
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 {
		t.Errorf("exit code %d after ctrl-c", code)
	}
	u.wantWords(s.Output(), "nothing is lost", "cancelled")
	kubeconfig := u.files(u.Kubeconfig)
	plug := u.unplug()
	u.approve(t, request)
	u.wantFailure(u.ran(u.Kubehsm(t.Context(), "enroll", "--name", enrolled, "--yes")), 3, "", "no such token")
	u.unchanged(kubeconfig, u.Kubeconfig)
	u.nothingHalfWritten()
	plug()
	r := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--name", enrolled, "--yes", "-o", "json")))
	if r.Request != request || r.User != "jane" {
		t.Errorf("it went on with %+v, not with request %s", r, request)
	}
}
