//go:build linux

package lab

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/term"
)

// Insist types a key until what it does is seen: a dialog that opens by itself
// takes no keys at first, so that none meant for something else counts, and the
// screen does not tell from when on it does.
func Insist(s *term.Session, key, what string, done func(term.Frame) bool) {
	const grace = 1200 * time.Millisecond // longer than a dialog refuses keys
	seen, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(grace)
		defer t.Stop()
		for {
			select {
			case <-seen:
				return
			case <-t.C:
				if !done(s.Frame()) {
					_ = s.Terminal.Type(key) // an error shows in the wait below
				}
			}
		}
	}()
	defer func() {
		close(seen)
		<-ended
	}()
	s.WaitUntil(what, done)
}

// Fill answers the terminal UI's dialog called title, whose field for a secret
// is called label.
func Fill(s *term.Session, title, label, secret string) {
	s.WaitFor(title, label)
	typed := func(f term.Frame) bool { return f.Contains(label + "  •") }
	Insist(s, "x", "the dialog takes keys", typed)
	s.Press(term.CtrlU)
	s.WaitUntil("the field is empty", func(f term.Frame) bool { return !typed(f) })
	s.TypeHidden(secret)
	s.WaitFor(label + "  " + strings.Repeat("•", min(len(secret), 40))) // a ticket is longer than the field
	s.Press(term.Enter)
}

// Shows tells whether text is on the screen, for [Insist].
func Shows(text string) func(term.Frame) bool {
	return func(f term.Frame) bool { return f.Contains(text) }
}

// Says tells whether all texts are on the screen, whose width may break them.
func Says(texts ...string) func(term.Frame) bool {
	joined := strings.NewReplacer(" ", "", "\n", "")
	return func(f term.Frame) bool {
		screen := joined.Replace(f.Text())
		for _, text := range texts {
			if !strings.Contains(screen, joined.Replace(text)) {
				return false
			}
		}
		return true
	}
}

// AtTokens leaves the enrollment, which the terminal UI opens at where nothing is enrolled, and
// goes to the tokens.
func AtTokens(s *term.Session) {
	const enrolling, home = "› Enroll", "1 Tokens"
	s.WaitUntil("the first screen", func(f term.Frame) bool { return f.Contains(enrolling) || f.Contains(home) })
	if s.Frame().Contains(enrolling) {
		s.Press(term.Escape)
		s.WaitFor(home)
	}
	s.Type("1")
}
