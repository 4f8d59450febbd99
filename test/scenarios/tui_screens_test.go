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
