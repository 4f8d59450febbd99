//go:build linux && cgo

package card

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
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
	if _, after, _ := strings.Cut(s.Output(), "The new PUK of the token: "); strings.Contains(after, "Next") {
		t.Errorf("the PUK is not the last that is said:\n%s", s.Output())
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

// TestMainJobOnTheScreen: the same in the terminal UI, on the smallest terminal that it is made
// for: from `kubehsm` and a card that is not inserted to a kubectl that works.
func TestMainJobOnTheScreen(t *testing.T) {
	p := newPerson(t)
	p.hidden = []string{ownPIN}
	p.KeepSecret(t, p.hidden...)
	soft, err := filepath.Glob(filepath.Join(p.Soft.Tokens, "*"))
	must(t, err)
	for _, path := range soft { // the card is the only token
		must(t, os.RemoveAll(path))
	}
	p.readers.Remove(t, 0)
	s := term.Run(t, term.Options{Path: p.Binary, Dir: p.Dir, Env: p.Env(), Secrets: p.hidden, Columns: 60, Rows: 15})
	s.WaitFor("Insert your key")
	p.readers.Insert(t, 0, p.card)
	s.WaitFor("Who      jane@sso", "your own PIN", "random PUK", "touch cached", "enter enroll")
	answers, keystrokes := 1, 1
	s.Press(term.Enter)
	for _, field := range []string{"PIV PIN", question.Repeat} {
		lab.Fill(s, "New PIV PIN of", field, ownPIN)
		answers++
		keystrokes += len(ownPIN) + 1
	}
	p.tap(s) // the request is signed
	s.WaitFor("waiting for somebody to approve", "kubehsm csr approve", "key's words are", "c copy", "w copy")
	p.atRest("the request")
	s.Type("2")
	s.WaitFor("wait for approval", lab.Context) // the header of another screen shows the enrollment
	p.approve(p.request())
	p.tap(s) // the agent signs in
	s.WaitFor("prod-hsm is enrolled")
	s.Type("1")
	s.WaitFor("Enrolled: authenticated as jane@sso", "The new PUK of the token")
	t.Logf("commands 1, answers %d, secrets typed 2, keystrokes beside the command %d", answers, keystrokes)
	if answers > 3 || keystrokes > 30 {
		t.Errorf("%d answers, %d keystrokes", answers, keystrokes)
	}
	said := regexp.MustCompile(`(?m)^ +(\d{8}) *$`).FindStringSubmatch(s.Screen())
	if len(said) != 2 || !p.card.CheckPUK(said[1]) || !p.card.CheckPIN(ownPIN) {
		t.Errorf("the PIN and the PUK are not those that were typed and shown:\n%s", s.Screen())
	}
	s.Type("P")
	s.WaitFor("PUK copied")
	s.Type("q")
	s.WaitFor("Leave?", "Have you saved it?")
	lab.Insist(s, "y", "it is left", func(f term.Frame) bool { return !f.Contains("Leave?") })
	if code := s.Exit(); code != 0 || !s.Cooked() {
		t.Errorf("exit code %d", code)
	}
	if last := s.Output(); !strings.Contains(last, "The new PUK of the token: ") {
		t.Errorf("the PUK that was not acknowledged is not shown once more:\n%s", last)
	}
	p.atRest("the enrollment")
	if out := p.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane@sso" {
		t.Errorf("kubectl is %q", out)
	}
}
