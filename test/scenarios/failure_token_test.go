//go:build linux

package scenarios

import (
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
