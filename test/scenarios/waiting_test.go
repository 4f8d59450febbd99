//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestWaitingSaysWhy: one terminal is asked for the PIN; whoever needs it on another
// is told where.
func TestWaitingSaysWhy(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	const list = "kubectl get namespaces -o name"
	const waiting, whom = " is being asked for on /dev/pts/", "(kubectl get namespaces, process "
	// asked has the first command ask, of an agent that has refused nobody.
	asked := func(u *user) *term.Session {
		u.kubehsm("agent", "stop")
		s := u.sh(list + "; echo code $?")
		s.WaitFor(pinPrompt)
		return s
	}
	waits := func(s *term.Session) {
		s.WaitUntil("it says why it waits", lab.Says(`waiting: the PIN of "`, waiting, whom))
	}
	silent := func(u *user, s *term.Session) {
		u.t.Helper()
		if out := s.Output(); strings.Contains(out, "waiting:") {
			u.t.Errorf("who is asked is told to wait: %s", out)
		}
	}

	t.Run("until the PIN is typed there", func(t *testing.T) {
		u := u.in(t)
		first := asked(u)
		second := u.sh("echo x | " + list + "; echo code $?")
		unlock := u.terminal(u.Binary, "unlock")
		for _, s := range []*term.Session{second, unlock} {
			waits(s)
		}
		first.Answer(pinPrompt, lab.PIN)
		for _, s := range []*term.Session{first, second} {
			s.WaitFor("namespace/default", "code 0")
			s.Exit()
		}
		unlock.WaitFor("is unlocked")
		unlock.Exit()
		for _, s := range []*term.Session{second, unlock} {
			if screen := s.Screen(); strings.Contains(screen, "waiting") || strings.Contains(s.Output(), pinPrompt) {
				t.Errorf("left on the screen, or asked twice:\n%s", s.Output())
			}
		}
		silent(u, first)
	})
	t.Run("on standard error where there is no terminal", func(t *testing.T) {
		u := u.in(t)
		first := asked(u)
		second := u.sh("setsid --wait " + list + " </dev/null >out 2>err; echo code $?")
		words := func() string {
			b, err := os.ReadFile(filepath.Join(u.Dir, "err"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return string(b)
		}
		poll.Until(t, "the line is written", func() bool { return strings.HasSuffix(words(), ")\n") })
		first.Answer(pinPrompt, lab.PIN)
		second.WaitFor("code 0")
		second.Exit()
		first.Exit()
		if w := words(); strings.Count(w, "\n") != 1 || !strings.Contains(w, waiting) || !strings.Contains(w, whom) {
			t.Errorf("%q", w)
		}
		if out, err := os.ReadFile(filepath.Join(u.Dir, "out")); err != nil || !strings.HasPrefix(string(out), "namespace/") {
			t.Errorf("%q, %v", out, err)
		}
	})
	// The last, as a terminal is not asked again at once.
	t.Run("asked itself when the first one gives up", func(t *testing.T) {
		u := u.in(t)
		first := asked(u)
		second := u.sh(list + "; echo code $?")
		waits(second)
		first.Press(term.CtrlC)
		first.Exit()
		second.Answer(pinPrompt, lab.PIN)
		second.WaitFor("namespace/default", "code 0")
		second.Exit()
		if screen := second.Screen(); strings.Contains(screen, "waiting") {
			t.Error(screen)
		}
	})
}
