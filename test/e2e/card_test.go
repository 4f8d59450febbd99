//go:build linux && cgo

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// ownPIN is the one that the card's owner chooses; a PIV PIN has at most 8 digits.
const ownPIN = "73916402"

// patience bounds waits for what a healthy system does at once.
const patience = 2 * time.Minute

// owner is somebody with a new card, which is not inserted yet, and no other token.
type owner struct {
	*person
	card    *vcard.Card
	readers *vcard.Lab
	// wanted gets a value when the card needs a touch, and touched takes one when
	// it is touched.
	wanted, touched chan struct{}
}

// newOwner's tests are not parallel: the reader is the namespace's.
func newOwner(t *testing.T) *owner {
	t.Helper()
	o := &owner{person: newPerson(t), readers: vcard.ForTest(t), wanted: make(chan struct{}), touched: make(chan struct{})}
	soft, err := filepath.Glob(filepath.Join(o.Soft.Tokens, "*"))
	o.Must(err)
	for _, path := range soft {
		o.Must(os.RemoveAll(path))
	}
	o.KeepSecret(t, ownPIN)
	o.card = vcard.New(vcard.Config{Serial: 12345678, Touch: o.wait})
	t.Cleanup(func() { o.atRest("everything") })
	return o
}

// wait is the card's wish to be touched.
func (o *owner) wait(_ byte, done <-chan struct{}) bool {
	for _, c := range []chan struct{}{o.wanted, o.touched} {
		select {
		case c <- struct{}{}:
		case <-done:
			return false
		}
	}
	return true
}

// touch waits until the terminal says that a touch is wanted and the card wants
// it, and then touches the card.
func (o *owner) touch(s *term.Session, prompt string) {
	o.T.Helper()
	s.WaitFor(prompt)
	o.finger(s)
	s.WaitGone(prompt)
}

// finger touches the card as soon as it wants that.
func (o *owner) finger(s *term.Session) {
	o.T.Helper()
	for _, c := range []chan struct{}{o.wanted, o.touched} {
		select {
		case <-c:
		case <-time.After(patience):
			o.T.Fatalf("the card wants no touch; the screen:\n%s", s.Screen())
		}
	}
}

// atRest checks that the card would do nothing for another program.
func (o *owner) atRest(after string) {
	o.T.Helper()
	if o.card.Verified() || o.card.Managed() {
		o.T.Errorf("after %s the card has the PIN verified: %v, the management key proved: %v", after, o.card.Verified(),
			o.card.Managed())
	}
}

// wantSecrets checks the card's secrets against what was typed and what was shown, and its tries.
func (o *owner) wantSecrets(shown *regexp.Regexp, text string) {
	o.T.Helper()
	puk := shown.FindStringSubmatch(text)
	if len(puk) != 2 || !o.card.CheckPUK(puk[1]) || !o.card.CheckPIN(ownPIN) {
		o.T.Errorf("the PIN and the PUK are not those that were typed and shown:\n%s", text)
	}
	if pin, puk := o.card.PINRetries(); pin != 3 || puk != 3 {
		o.T.Errorf("%d tries of the PIN and %d of the PUK are left", pin, puk)
	}
}

// wantFiler has kubectl say that it is who the kubeconfig named before.
func (o *owner) wantFiler() {
	o.T.Helper()
	if out := o.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != lab.Filer {
		o.T.Errorf("kubectl is %q", out)
	}
}

// TestMainJobOnTheScreen: in the terminal UI, on the smallest terminal that it is made for, from
// a new card that is not inserted to a kubectl that works. It counts what a person does: three
// answers, two of them the new PIN.
func TestMainJobOnTheScreen(t *testing.T) {
	o := newOwner(t)
	const touchPrompt = "Waiting for your touch"
	s := term.Run(t, term.Options{Path: o.Binary, Dir: o.Dir, Env: o.Env(), Secrets: []string{ownPIN}, Columns: 60, Rows: 15})
	s.WaitFor("Insert your key")
	o.readers.Insert(t, 0, o.card)
	s.WaitFor("Who      jane@sso", "your own PIN", "random PUK", "touch cached", "enter enroll")
	answers, keystrokes := 1, 1
	s.Press(term.Enter)
	for _, field := range []string{"PIV PIN", question.Repeat} {
		lab.Fill(s, "New PIV PIN of", field, ownPIN)
		answers++
		keystrokes += len(ownPIN) + 1
	}
	o.touch(s, "sign the certificate request")
	s.WaitFor("waiting for somebody to approve", "kubehsm csr approve", "key's words are", "c copy", "w copy")
	o.atRest("the request")
	s.Type("2")
	s.WaitFor("wait for approval", lab.Context) // the header of another screen shows the enrollment
	o.approve(o.pending())
	o.touch(s, touchPrompt) // the agent signs in
	s.WaitFor("prod-hsm is enrolled")
	s.Type("1")
	s.WaitFor("Enrolled: authenticated as jane@sso", "The new PUK of the token")
	if answers > 3 || keystrokes > 30 {
		t.Errorf("%d answers, %d keystrokes", answers, keystrokes)
	}
	o.wantSecrets(regexp.MustCompile(`(?m)^ +(\d{8}) *$`), s.Screen())
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
	o.atRest("the enrollment")
	o.wantFiler()
}

// TestConsentByTouch: one command takes a new card to a kubectl that works. Where the key needs a
// touch for every use, a touch is the yes, and the token signs what was agreed to.
func TestConsentByTouch(t *testing.T) {
	o := newOwner(t)
	const touchPrompt, uri = "Touch the token", "piv:serial=12345678;slot=9a"
	terminal := func(program string, args ...string) *term.Session {
		return term.Run(t, term.Options{Path: program, Args: args, Dir: o.Dir, Env: o.Env(), Secrets: []string{ownPIN}, Columns: 120,
			Rows: 100})
	}
	s := terminal(o.Binary, "enroll", "--token", uri, "--touch-policy", "always", "--user", "jane", "--group",
		lab.DevelopersGroup, "--approve-with", o.Cluster.AdminKubeconfig())
	s.WaitFor("Waiting for a token. Insert it.")
	o.readers.Insert(t, 0, o.card)
	s.WaitFor("Who:", "your own PIN", "random PUK (shown at the end)", "touch always", "Begin? [Y/n")
	s.Type("\r")
	for _, prompt := range []string{"New PIV PIN:", question.Repeat} {
		s.WaitFor(prompt)
		s.TypeHidden(ownPIN)
		s.Type("\r")
	}
	o.touch(s, "sign the certificate request")
	o.touch(s, "sign the record of the enrollment")
	o.touch(s, touchPrompt) // the agent signs in
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	if strings.Contains(string(s.Raw()), "needs its PIV PIN") {
		t.Error("the PIN was asked for once more")
	}
	o.wantSecrets(regexp.MustCompile(`The new PUK of the token: (\d{8})`), s.Output())
	if _, after, _ := strings.Cut(s.Output(), "The new PUK of the token: "); strings.Contains(after, "Next") {
		t.Errorf("the PUK is not the last that is said:\n%s", s.Output())
	}
	o.atRest("the enrollment")
	o.wantUser()

	s = terminal(o.Binary, "consent", "set", lab.Enrolled, "--policy", "writes", "--yes")
	s.WaitFor("of the enrollment prod-hsm", "needs its PIV PIN to allow it")
	s.TypeHidden(ownPIN)
	s.Type("\r")
	o.touch(s, touchPrompt)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("Signed by the key on ") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	name := unique("touched")
	s = terminal(o.Cluster.Kubectl(), "create", "configmap", name)
	s.WaitFor(touchPrompt) // another policy begins with another connection
	o.finger(s)
	s.WaitFor("create configmaps", `Namespace     "default"`, "prod-hsm at ", "to allow it")
	o.touch(s, touchPrompt)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("created") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	o.atRest("a consent")
	if out := o.Do("audit"); !strings.Contains(out, `create configmaps in "default", touch, signed`) {
		t.Errorf("the audit log:\n%s", out)
	}
	// On a terminal in raw mode no touch line would be seen: the question comes first.
	o.Must(o.Cluster.RunPod(t.Context(), "default", name))
	s = terminal("/bin/sh", "-c", "kubectl exec -it "+name+" -- echo in the pod")
	s.WaitFor("pods/exec", name, "Allow it, and touch the token then? [y/N]")
	s.Type("y\r")
	o.finger(s)
	s.WaitFor("in the pod")
	s.Exit()
	s = terminal("/bin/sh", "-c", "kubectl get pods >/dev/null && echo read; kubectl delete configmap "+name)
	s.WaitFor("read", "delete configmaps", `"touched-`)
	o.touch(s, touchPrompt)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("deleted") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
}
