package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// TestKeys walks from a known screen by keys and says what must be seen.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(*rig)
		keys  []string
		sees  []string
		not   []string
	}{
		{"help opens", atTokens, []string{"?"}, []string{"Keys", "Everywhere", "leave at once"}, nil},
		{"help closes by q", atTokens, []string{"?", "q"}, []string{"trial"}, []string{"Everywhere"}},
		{"filter takes q and ?", atTokens, []string{"/", `"q?"`}, []string{"/ q?", "No token or slot matches"}, []string{"Everywhere"}},
		{"filter narrows to a slot and its token", atTokens, []string{"/", `"rsa"`, "enter"}, []string{"YubiKey", "rsa-2048"}, []string{"ecdsa-p256", "SoftHSM v2"}},
		{"esc shows all again", atTokens, []string{"/", `"rsa"`, "enter", "esc"}, []string{"trial", "ecdsa-p256"}, nil},
		{"vi's letters move", atTokens, []string{"j", "j"}, []string{"Slot 9a on"}, nil},
		{"end and home", atTokens, []string{"G", "g"}, []string{"▌ trial"}, nil},
		{"enter on a key goes to the cluster", atTokens, []string{"down", "down", "enter"}, []string{"Which cluster"}, nil},
		{"enter on an empty slot goes to the policies", atTokens, []string{"end", "enter"}, []string{"What shall the new key be like", "needs firmware 5.7"}, nil},
		{"esc from there comes back", atTokens, []string{"down", "down", "enter", "esc"}, []string{"SLOT"}, nil},
		{"x shows the command", atTokens, []string{"x"}, []string{"kubehsm enroll --token", "'pkcs11:"}, nil},
		{"a disabled action says why", atTokens, []string{"f"}, []string{"copy fingerprint: there is no key"}, nil},
		{"copy says what", atTokens, []string{"c"}, []string{"URI copied"}, nil},
		{"q is text in a form", toSubject, []string{`"q?x"`}, []string{"q?x"}, []string{"Everywhere"}},
		{"a user is needed", toSubject, []string{"enter"}, []string{"a user name is needed"}, []string{"This is what"}},
		{"system:masters is refused", toSubject, []string{`"jane"`, "tab", `"dev, system:masters"`, "enter"}, []string{"refuse requests for system:masters"}, []string{"This is what"}},
		{"a bad context name is refused", toSubject, []string{`"jane"`, "tab", "tab", "tab", `"Bad Name"`, "enter"}, []string{"a-z, 0-9"}, nil},
		{"a choice moves by arrows", toSubject, []string{`"jane"`, "tab", "tab", "down", "down", "enter"}, []string{"Lifetime  24 hours"}, nil},
		{"unusable choices are skipped", toPolicy, []string{"tab", "end", "enter", "esc"}, []string{"always"}, nil},
		{"esc goes back through the wizard", toReview, []string{"esc", "esc", "esc", "esc", "esc"}, []string{"Which token"}, nil},
		{"what was chosen stays", toReview, []string{"esc", "esc", "enter"}, []string{"jane"}, nil},
		{"the wizard shows its command", toReview, []string{"x"}, []string{"kubehsm enroll --name trial-admin-hsm"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var opt []rigOption
			if c.start != nil && fmt.Sprintf("%p", c.start) != fmt.Sprintf("%p", atTokens) {
				opt = append(opt, atEnroll)
			}
			r := newRig(t, newFake(), 100, 30, opt...)
			c.start(r)
			for _, k := range c.keys {
				r.press(k)
				r.settle()
			}
			r.sees(c.sees...)
			for _, s := range c.not {
				if strings.Contains(r.view(), s) {
					t.Errorf("the screen must not hold %q:\n%s", s, r.view())
				}
			}
		})
	}
}

func atTokens(r *rig) { r.sees("trial", "9d") }

func TestQuit(t *testing.T) {
	r := newRig(t, newFake(), 80, 24)
	atTokens(r)
	r.press("q")
	r.until("quit", func() bool { return r.quit })
	if r.m.outcome.Interrupted {
		t.Error("q is no interrupt")
	}
}

// TestInterrupt: ctrl-c leaves from everywhere, text fields and dialogs too.
func TestInterrupt(t *testing.T) {
	for name, to := range map[string]func(*rig){"form": toSubject, "PIN": toPIN, "review": toReview} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newFake(), 80, 24, atEnroll)
			to(r)
			r.press("ctrl+c")
			r.until("quit", func() bool { return r.quit })
			if !r.m.outcome.Interrupted {
				t.Error("not told to be interrupted")
			}
		})
	}
}

// TestQuitAsksWhileRunning: q does not throw a running enrolment away unasked.
func TestQuitAsksWhileRunning(t *testing.T) {
	f := newFake()
	f.hang[flow.StepToken] = true
	r := newRig(t, f, 80, 24, atEnroll)
	toReview(r)
	r.press("enter")
	r.sees("Enrolling")
	r.press("q")
	r.sees("Leave?", "The enrolment stops here")
	r.press("enter") // the focus is on no
	if r.quit || len(r.m.dialogs) != 0 {
		t.Fatal("left without a yes")
	}
	r.press("q")
	r.sees("Leave?")
	r.press("y")
	r.until("quit", func() bool { return r.quit })
}

// TestClusterBecomesReady: the wizard goes on by itself.
func TestClusterBecomesReady(t *testing.T) {
	var path string
	r := newRig(t, newFake(), 80, 24, building(t, `{"phase":"building","done":1,"total":2}`), func(_ *rig, o *Options) { path = o.ClusterProgress })
	toPolicy(r)
	r.press("enter")
	r.sees("1 of 2 packages", "50%")
	if err := os.WriteFile(path, []byte(`{"phase":"ready"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(pollMsg{})
	r.sees("Who is it for", "trial-admin-hsm", "the cluster is ready")
	if got := r.top().Title(); got != "Enrol" {
		t.Errorf("on %s", got)
	}
}

func (r *rig) top() screen.Screen { return r.m.top() }

// TestClusterMeanwhile: all can be filled in before the cluster is there; the
// review waits for it.
func TestClusterMeanwhile(t *testing.T) {
	var path string
	r := newRig(t, newFake(), 80, 24, building(t, `{"phase":"starting"}`), func(_ *rig, o *Options) { path = o.ClusterProgress })
	toPolicy(r)
	r.press("enter")
	r.sees("made ready")
	r.press("enter")
	r.sees("Who is it for")
	r.press(`"jane"`, "enter")
	r.sees("Ready but for the cluster")
	r.press("enter")
	r.sees("the cluster is not ready yet")
	if err := os.WriteFile(path, []byte(`{"phase":"ready"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(pollMsg{})
	r.sees("This is what will be done", "trial-admin")
}

func TestClusterFails(t *testing.T) {
	r := newRig(t, newFake(), 80, 24, building(t, `{"phase":"failed","message":"no space left\u001b[2J"}`))
	toPolicy(r)
	r.press("enter")
	r.sees("no space left", "hint:", "staging")
}

// TestStaleAnswers: what an earlier reading says does not replace a later one.
func TestStaleAnswers(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 80, 24)
	atTokens(r)
	first := r.m.store.LoadTokens(r.now)
	second := r.m.store.LoadTokens(r.now)
	old := first()
	f.tokens = f.tokens[:1]
	r.send(second())
	r.send(old)
	if n := len(r.m.store.Tokens.Value.Views); n != 1 {
		t.Errorf("%d tokens: the earlier answer counted", n)
	}
}

// TestHotPlug: tokens that come and go do not move the selection.
func TestHotPlug(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atTokens(r)
	r.press("down", "down")
	r.sees("Slot 9a on")
	all := f.tokens
	f.tokens = all[1:]
	r.press("r")
	r.until("the first is gone", func() bool { return !strings.Contains(r.view(), "SoftHSM v2") })
	r.sees("Slot 9a on")
	f.tokens = nil
	r.press("r")
	r.sees("No token is here")
	f.tokens = all
	r.press("r")
	r.sees("trial")
}

func TestListFailureStays(t *testing.T) {
	f := newFake()
	f.tokensErr = hsm.WithHint(errors.New("pcscd is not running"), "start it: systemctl start pcscd")
	r := newRig(t, f, 80, 24)
	r.sees("error: pcscd is not running", "hint: start it")
}

// TestHostileText: what comes from tokens, clusters and files cannot act on the
// terminal, on any screen.
func TestHostileText(t *testing.T) {
	const evil = "ev\x1b]0;owned\x07il\x1b[2J\u202e\r\n"
	f := newFake()
	i := &f.tokens[0].Info
	i.Label, i.Model, i.Manufacturer, i.Reader, i.Serial, i.Firmware = evil, evil, evil, evil, evil, evil
	i.Module = &hsm.Module{Path: evil}
	s := &f.tokens[1].Slots[0]
	s.Label, s.Problem, s.Certificate.Subject.CommonName = evil, evil, evil
	f.tokens[1].Slots[1].ID = evil
	f.problems = []hsm.Problem{{Source: evil, Err: errors.New(evil)}}
	for n := range f.contexts {
		c := &f.contexts[n]
		c.Server, c.Cluster, c.User, c.UserKind, c.File = evil, evil, evil, evil, evil
	}
	f.notes = []string{evil}
	f.unfinished = []flow.Journal{{Options: flow.EnrollOptions{Name: evil, User: evil, Context: evil}, Updated: fakeNow()}}
	f.fail[flow.StepRequest] = hsm.WithHint(errors.New(evil), evil)
	r := newRig(t, f, 120, 40, atEnroll)
	check := func() {
		t.Helper()
		c := r.m.View().Content
		for _, bad := range []string{"\x1b]", "\x1b[2J", "\x07", "\u202e", "\r"} {
			if strings.Contains(c, bad) {
				t.Fatalf("%q reached the screen: %q", bad, c)
			}
		}
	}
	r.sees("Start a new enrolment")
	check()
	r.press("down", "enter")
	r.sees("Which token")
	check()
	r.press("enter", "enter", "enter")
	r.sees("Which cluster", "trial-admin")
	check()
	r.press("enter", `"jane"`, "enter")
	r.sees("This is what will be done", "Context")
	check()
	r.press("enter")
	r.sees("PIN of")
	check()
	r.press(`"648219"`, "enter")
	r.sees("hint:")
	check()
	r.press("esc", "esc", "esc", "esc", "esc", "esc", "esc", "esc")
	r.sees("Tokens")
	check()
	r.press("down", "down")
	check()
}

// TestGrace: a dialog that opens by itself drops what was typed for the screen
// before it.
func TestGrace(t *testing.T) {
	now := fakeNow()
	sent := make(chan tea.Msg, 4)
	p := dialog.NewPrompter(func(m tea.Msg) { sent <- m }, keys.Default(), dialog.Grace, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan string, 1)
	go func() {
		s, err := p.PIN(ctx, hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1, Token: softToken().Info})
		if err != nil {
			got <- err.Error()
			return
		}
		defer s.Zero()
		got <- string(s.Bytes())
	}()
	open, ok := (<-sent).(dialog.OpenMsg)
	if !ok {
		t.Fatal("no dialog")
	}
	d := open.Dialog
	d.Open(now)
	for i, k := range keyPresses(`"yy"`) { // the second extends nothing beyond the cap
		if closed, _ := d.Update(k, now.Add(time.Duration(i)*100*time.Millisecond)); closed {
			t.Fatal("closed")
		}
	}
	if closed, _ := d.Update(keyPresses("enter")[0], now.Add(200*time.Millisecond)); closed {
		t.Fatal("enter was typed ahead and counted")
	}
	now = now.Add(time.Second)
	for _, k := range append(keyPresses(`"12345"`), keyPresses("backspace")...) {
		d.Update(k, now)
	}
	closed, _ := d.Update(keyPresses("enter")[0], now)
	if !closed {
		t.Fatal("still open")
	}
	d.Drop()
	if pin := <-got; pin != "1234" {
		t.Errorf("got %q", pin)
	}
}

// TestPromptEnds: a prompt whose asker gives up closes its dialog, and one that
// is closed answers that it was cancelled.
func TestPromptEnds(t *testing.T) {
	r := newRig(t, newFake(), 80, 24)
	atTokens(r)
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 1)
	ask := func() {
		_, err := r.m.prompter.PIN(ctx, hsm.PINPrompt{Kind: hsm.PIVPIN, Token: pivToken().Info, Retries: 3})
		errs <- err
	}
	go ask()
	r.sees("PIV PIN of YubiKey")
	cancel()
	r.until("closed", func() bool { return len(r.m.dialogs) == 0 })
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx = context.Background()
	go ask()
	r.sees("PIV PIN of YubiKey", "FIDO PIN", "3 tries left")
	r.press("esc")
	if err := <-errs; !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

// TestTouch: the dialog rings after a while and goes when the token was touched.
func TestTouch(t *testing.T) {
	r := newRig(t, newFake(), 80, 24)
	atTokens(r)
	done := r.m.prompter.Touch(context.Background(), hsm.TouchPrompt{Token: pivToken().Info, Purpose: hsm.Purpose{Cluster: "trial", Action: "sign in"}})
	r.sees("Touch YubiKey", "To sign in for trial")
	r.now = r.now.Add(6 * time.Second)
	r.send(tickMsg{})
	r.until("bell", func() bool {
		for _, m := range r.sent {
			if raw, ok := m.(tea.RawMsg); ok && raw.Msg == "\a" {
				return true
			}
		}
		return false
	})
	go done()
	r.until("closed", func() bool { return len(r.m.dialogs) == 0 })
}

// TestNewSecret: a new secret is typed twice.
func TestNewSecret(t *testing.T) {
	r := newRig(t, newFake(), 80, 24)
	atTokens(r)
	got := make(chan string, 1)
	go func() {
		s, err := r.m.prompter.PIN(context.Background(), hsm.PINPrompt{Kind: hsm.PIVPIN, Token: pivToken().Info, Retries: -1, New: true})
		if err != nil {
			got <- err.Error()
			return
		}
		defer s.Zero()
		got <- string(s.Bytes())
	}()
	r.sees("New PIV PIN")
	r.press(`"123456"`, "enter")
	r.sees("again")
	r.press(`"123457"`, "enter")
	r.sees("not the same")
	r.press(`"123"`, "enter")
	r.sees("at least 6")
	r.press(`"246810"`, "enter", `"246810"`, "enter")
	if s := <-got; s != "246810" {
		t.Errorf("got %q", s)
	}
}

// TestTypedConfirm: what cannot be undone is typed out.
func TestTypedConfirm(t *testing.T) {
	r := newRig(t, newFake(), 80, 24)
	atTokens(r)
	got := make(chan bool, 1)
	go func() {
		yes, err := r.m.prompter.Confirm(context.Background(), hsm.ConfirmPrompt{Question: "Erase it?", Type: "12345678"})
		got <- yes && err == nil
	}()
	r.sees("Type 12345678")
	r.press("enter", `"1234"`, "enter")
	if len(r.m.dialogs) != 1 {
		t.Fatal("closed by the wrong words")
	}
	r.press(`"5678"`, "enter")
	if !<-got {
		t.Error("no yes")
	}
}

// TestSecretFieldLeavesNothing: the buffer is zero after use and never copied.
func TestSecretFieldLeavesNothing(t *testing.T) {
	f := widget.NewSecretField()
	for _, k := range keyPresses(`"secret"`) {
		f.Update(k)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", f, f, f, f); strings.Contains(s, "secret") {
		t.Errorf("printed: %s", s)
	}
	s := f.Take()
	if string(s.Bytes()) != "secret" || f.Len() != 0 {
		t.Errorf("took %d bytes, left %d", s.Len(), f.Len())
	}
	s.Zero()
	f.Update(tea.PasteMsg{Content: strings.Repeat("x", 5000)})
	if f.Len() != 0 {
		t.Error("took more than it holds")
	}
}

func TestUsable(t *testing.T) {
	err := Usable(strings.NewReader(""), &strings.Builder{}, []string{"TERM=xterm"})
	if !errors.Is(err, hsm.ErrNoTerminal) || hsm.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestTooSmall: nothing breaks on a tiny terminal.
func TestTooSmall(t *testing.T) {
	r := newRig(t, newFake(), 100, 30, atEnroll)
	toPIN(r)
	for w := 1; w < 64; w += 3 {
		for h := 1; h < 24; h++ {
			r.send(tea.WindowSizeMsg{Width: w, Height: h})
			checkFrame(t, r.m.View(), w, h)
		}
	}
}
