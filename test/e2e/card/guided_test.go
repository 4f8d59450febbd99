//go:build linux && cgo

package card

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// newPINPrompt is part of what asks for a PIN that a person chooses.
const newPINPrompt = "New PIV PIN:"

// TestMainJob: from a new card that is not even inserted to a kubectl that works. It counts
// what a person does: one command, three answers, two of them the new PIN.
func TestMainJob(t *testing.T) {
	p := newPerson(t)
	p.readers.Remove(t, 0)
	s := p.terminal(p.Binary, "enroll", "--token", p.uri, "--approve-with", p.Cluster.AdminKubeconfig())
	s.WaitFor("Waiting for a token. Insert it.")
	p.readers.Insert(t, 0, p.card)
	answers, keystrokes := 0, 0
	answer := func(text string) {
		answers++
		keystrokes += len(text)
		s.Type(text)
	}
	s.WaitFor("Who:", "your own PIN", "random PUK (shown at the end)", "touch cached", "Begin? [Y/n")
	answer("\r")
	s.WaitFor(newPINPrompt)
	answer(ownPIN + "\r")
	s.WaitFor(question.Repeat)
	answer(ownPIN + "\r")
	p.touch(s) // the request is signed
	p.touch(s) // the agent signs in
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	t.Logf("commands 1, answers %d, secrets typed 2, keystrokes beside the command %d", answers, keystrokes)
	if strings.Contains(string(s.Raw()), pinPrompt) {
		t.Error("the PIN was asked for once more")
	}
	if answers > 3 || keystrokes > 30 {
		t.Errorf("%d answers, %d keystrokes", answers, keystrokes)
	}
	said := regexp.MustCompile(`The new PUK of the token: (\d{8})`).FindStringSubmatch(s.Output())
	if len(said) != 2 || !p.card.CheckPUK(said[1]) || !p.card.CheckPIN(ownPIN) {
		t.Errorf("the PIN and the PUK are not those that were typed and shown:\n%s", s.Output())
	}
	p.atRest("the enrollment")
	if out := p.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane@sso" {
		t.Errorf("kubectl is %q", out)
	}
	if pin, puk := p.card.PINRetries(); pin != 3 || puk != 3 {
		t.Errorf("%d tries of the PIN and %d of the PUK are left", pin, puk)
	}
}

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
	if code := s.Exit(); code != 130 || !s.Cooked() {
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
