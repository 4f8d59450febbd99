//go:build linux

package term

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/test/must"
)

// patience bounds every wait of a [Session]: a healthy program needs a fraction
// of it, also beside compilers.
const patience = 2 * time.Minute

// Session is a [Terminal] in a test: what does not happen ends the test and
// shows the screen.
type Session struct {
	*Terminal
	t testing.TB
}

// Run is [Start] for a test. At its end the program is ended if need be, and a
// secret that was shown fails the test.
func Run(t testing.TB, o Options) *Session {
	t.Helper()
	terminal, err := Start(o)
	must.OK(t, err)
	s := &Session{Terminal: terminal, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen at last:\n%s", s.Screen())
		}
		if err := terminal.Close(); err != nil {
			t.Errorf("close the terminal: %v", err)
		}
		if shown := terminal.Shown(); len(shown) > 0 {
			t.Errorf("%d secrets were shown on the terminal", len(shown))
		}
	})
	return s
}

// Screen is the screen as text.
func (s *Session) Screen() string { return s.Frame().Text() }

// Output is all that was written so far as plain text: unlike the screen it has
// no end and no wrapped lines, but what was erased is still in it.
func (s *Session) Output() string {
	return strings.ReplaceAll(ansi.Strip(string(s.Raw())), "\r", "")
}

// WaitFor waits until all texts are on the screen.
func (s *Session) WaitFor(texts ...string) {
	s.t.Helper()
	s.WaitUntil("the screen shows all of it", func(f Frame) bool {
		for _, text := range texts {
			if !f.Contains(text) {
				return false
			}
		}
		return true
	}, texts...)
}

// WaitGone waits until text is not on the screen.
func (s *Session) WaitGone(text string) {
	s.t.Helper()
	s.WaitUntil("the screen shows it no more", func(f Frame) bool { return !f.Contains(text) }, text)
}

// WaitUntil waits until is holds; what says it in words.
func (s *Session) WaitUntil(what string, is func(Frame) bool, about ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.Wait(ctx, is); err != nil {
		s.t.Fatalf("wait until %s %q: %v; the screen:\n%s", what, about, err, s.Screen())
	}
}

// Type sends text.
func (s *Session) Type(text string) {
	s.t.Helper()
	must.OK(s.t, s.Terminal.Type(text))
}

// Press sends keys.
func (s *Session) Press(keys ...Key) {
	s.t.Helper()
	for _, k := range keys {
		s.Type(string(k))
	}
}

// Answer waits for a prompt, types a secret and Enter. That it is not shown is
// checked at the end.
func (s *Session) Answer(prompt, secret string) {
	s.t.Helper()
	s.WaitFor(prompt)
	s.TypeHidden(secret)
	s.Press(Enter)
}

// TypeHidden types a secret. That it is not shown is checked at the end.
func (s *Session) TypeHidden(secret string) {
	s.t.Helper()
	must.OK(s.t, s.TypeSecret(secret))
}

// Resize changes the size.
func (s *Session) Resize(columns, rows int) {
	s.t.Helper()
	must.OK(s.t, s.Terminal.Resize(columns, rows))
}

// Exit waits for the end and returns the exit code.
func (s *Session) Exit() int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	code, err := s.ExitCode(ctx)
	if err != nil {
		s.t.Fatalf("%v; the screen:\n%s", err, s.Screen())
	}
	return code
}
