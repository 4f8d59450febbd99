//go:build linux && cgo

package card

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// newPINPrompt is part of what asks for a PIN that a person chooses.
const newPINPrompt = "New PIV PIN:"

// TestMainJobIsLeft: who leaves the question for the new PIN leaves the card as it was, and goes
// on with the same command.
func TestMainJobIsLeft(t *testing.T) {
	p := newPerson(t)
	args := []string{"enroll", "--token", p.uri, "--touch-policy", "never", "--approve-with", p.Cluster.AdminKubeconfig()}
	s := p.terminal(p.Binary, args...)
	s.WaitFor("Begin? [Y/n")
	s.Type("\r")
	s.WaitFor(newPINPrompt)
	s.Press(term.CtrlC)
	if code := s.Exit(); code != 130 || !s.Cooked() || !strings.Contains(s.Output(), "nothing is lost") {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	if !p.card.CheckPIN(vcard.DefaultPIN) || !p.card.CheckPUK(vcard.DefaultPUK) || p.card.Public(0x9a) != nil {
		t.Fatal("the card is not as it was")
	}
	s = p.terminal(p.Binary, args...)
	s.WaitFor("Begin? [Y/n")
	s.Type("\r")
	s.WaitFor(newPINPrompt)
	s.Type(ownPIN + "\r")
	s.WaitFor(question.Repeat)
	s.Type("12345\r")
	s.WaitFor(question.Differ)
	s.Type(ownPIN + "\r")
	s.WaitFor(question.Repeat)
	s.Type(ownPIN + "\r")
	if code := s.Exit(); code != 0 || !p.card.CheckPIN(ownPIN) {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	p.kubectl("auth", "whoami")
}
