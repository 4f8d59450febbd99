package tui

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
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
		{"help opens", atTokens, []string{"?"}, []string{"Keys", "have scdaemon let go (scdaemon holds no card)"}, nil},
		{"help scrolls", atTokens, []string{"?", "G"}, []string{"Everywhere", "leave at once"}, nil},
		{"help closes by q", atTokens, []string{"?", "q"}, []string{"trial"}, []string{"Everywhere"}},
		{"filter takes q and ?", atTokens, []string{"/", `"q?"`}, []string{"/ q?", "No token or slot matches"}, []string{"Everywhere"}},
		{"filter narrows to a slot and its token", atTokens, []string{"/", `"rsa"`, "enter"}, []string{"YubiKey", "rsa-2048"}, []string{"ecdsa-p256", "SoftHSM v2"}},
		{"esc shows all again", atTokens, []string{"/", `"rsa"`, "enter", "esc"}, []string{"trial", "ecdsa-p256"}, nil},
		{"vi's letters move", atTokens, []string{"j", "j"}, []string{"Slot 9a on"}, nil},
		{"end and home", atTokens, []string{"G", "g"}, []string{"▌ trial"}, nil},
		{"enrolling a key goes to the cluster", atTokens, []string{"down", "down", "e"}, []string{"Which cluster"}, nil},
		{"enrolling an empty slot goes to the policies", atTokens, []string{"end", "e"}, []string{"What shall the new key be like", "needs firmware 5.7"}, nil},
		{"esc from there comes back", atTokens, []string{"down", "down", "e", "esc"}, []string{"SLOT"}, nil},
		{"x shows the command", atTokens, []string{"x"}, []string{"kubehsm enroll --token", "'pkcs11:"}, nil},
		{"a disabled action says why", atTokens, []string{"f"}, []string{"copy fingerprint: there is no key"}, nil},
		{"copy says what", atTokens, []string{"c"}, []string{"URI copied"}, nil},
		{"q is text in a form", toSubject, []string{`"q?x"`}, []string{"q?x"}, []string{"Everywhere"}},
		{"a user is needed", toSubject, []string{"enter"}, []string{"a user name is needed"}, []string{"This is what"}},
		{"system:masters is refused", toSubject, []string{`"jane"`, "tab", `"dev, system:masters"`, "enter"}, []string{"refuse requests for system:masters"}, []string{"This is what"}},
		{"a bad context name is refused", toSubject, []string{`"jane"`, "tab", "tab", "tab", `"Bad Name"`, "enter"}, []string{"a-z, 0-9"}, nil},
		{"a choice moves by arrows", toSubject, []string{`"jane"`, "tab", "tab", "down", "down", "enter"}, []string{"Lifetime    24 hours"}, nil},
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
				r.Press(k)
				r.settle()
				_ = r.View() // as between the keys of a person
			}
			r.Sees(c.sees...)
			for _, s := range c.not {
				if strings.Contains(r.View(), s) {
					t.Errorf("the screen must not hold %q:\n%s", s, r.View())
				}
			}
		})
	}
}

func atTokens(r *rig) { r.Sees("trial", "9d") }

func TestQuit(t *testing.T) {
	r := newRig(t, newFake(), 80, 24)
	atTokens(r)
	r.Press("q")
	r.Until("quit", func() bool { return r.Quit })
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
			r.Press("ctrl+c")
			r.Until("quit", func() bool { return r.Quit })
			if !r.m.outcome.Interrupted {
				t.Error("not told to be interrupted")
			}
		})
	}
}

// TestQuitAsksWhileRunning: q does not throw a running enrollment away unasked.
func TestQuitAsksWhileRunning(t *testing.T) {
	f := newFake()
	f.hang[enrolling.StepToken] = true
	r := newRig(t, f, 80, 24, atEnroll)
	toReview(r)
	r.Press("enter")
	r.Sees("Enrolling")
	r.Press("q")
	r.Sees("Leave?", "The enrollment stops here")
	r.Press("enter") // the focus is on no
	if r.Quit || len(r.m.dialogs.stack) != 0 {
		t.Fatal("left without a yes")
	}
	r.Press("q")
	r.Sees("Leave?")
	r.Press("y")
	r.Until("quit", func() bool { return r.Quit })
}

// TestClusterBecomesReady: the wizard goes on by itself.
func TestClusterBecomesReady(t *testing.T) {
	var path string
	r := newRig(t, newFake(), 80, 24, building(t, `{"phase":"building","done":1,"total":2}`), func(_ *rig, o *Options) { path = o.ClusterProgress })
	toPolicy(r)
	r.Press("enter")
	r.Sees("1 of 2 packages", "50%")
	if err := os.WriteFile(path, []byte(`{"phase":"ready"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Send(pollMsg{})
	r.Sees("Who is it for", "trial-admin-hsm", "the cluster is ready")
	if got := r.top().Title(); got != "Enroll" {
		t.Errorf("on %s", got)
	}
}

func (r *rig) top() screen.Screen { return r.m.nav.top() }

// TestClusterMeanwhile: all can be filled in before the cluster is there; the
// review waits for it.
func TestClusterMeanwhile(t *testing.T) {
	var path string
	r := newRig(t, newFake(), 80, 24, building(t, `{"phase":"starting"}`), func(_ *rig, o *Options) { path = o.ClusterProgress })
	toPolicy(r)
	r.Press("enter")
	r.Sees("made ready")
	r.Press("enter")
	r.Sees("Who is it for")
	r.Press(`"jane"`, "enter")
	r.Sees("Ready but for the cluster")
	r.Press("enter")
	r.Sees("the cluster is not ready yet")
	if err := os.WriteFile(path, []byte(`{"phase":"ready"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Send(pollMsg{})
	r.Sees("This is what will be done", "trial-admin")
}

func TestClusterFails(t *testing.T) {
	r := newRig(t, newFake(), 80, 24, building(t, `{"phase":"failed","message":"no space left\u001b[2J"}`))
	toPolicy(r)
	r.Press("enter")
	r.Sees("no space left", "hint:", "staging")
}

// TestStaleAnswers: what an earlier reading says does not replace a later one.
func TestStaleAnswers(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 80, 24)
	atTokens(r)
	first := r.m.store.LoadTokens(r.Time)
	second := r.m.store.LoadTokens(r.Time)
	old := first()
	f.set(func() { f.tokens = f.tokens[:1] })
	r.Send(second())
	r.Send(old)
	if n := len(r.m.store.Tokens.Value.Views); n != 1 {
		t.Errorf("%d tokens: the earlier answer counted", n)
	}
}

func TestListFailureStays(t *testing.T) {
	f := newFake()
	f.tokensErr = hint.With(errors.New("pcscd is not running"), "start it: systemctl start pcscd")
	r := newRig(t, f, 80, 24)
	r.Sees("error: pcscd is not running", "hint: start it")
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
	f.unfinished = []enrolling.Progress{{Options: enrolling.Options{Name: evil, User: evil, Context: evil}, Updated: fakeNow()}}
	f.fail[enrolling.StepRequest] = hint.With(errors.New(evil), evil)
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
	r.Sees("Start a new enrollment")
	check()
	r.Press("down", "enter")
	r.Sees("Which token", "YubiKey")
	check()
	r.Press("enter", "enter", "enter")
	r.Sees("Which cluster", "trial-admin")
	check()
	r.Press("enter", `"jane"`, "enter")
	r.Sees("This is what will be done", "Enrollment")
	check()
	r.Press("enter")
	r.Sees("PIN of")
	check()
	r.Press(`"648219"`, "enter")
	r.Sees("hint:")
	check()
	r.Press("esc", "esc", "esc", "esc", "esc", "esc", "esc", "esc")
	r.Sees("Tokens")
	check()
	r.Press("down", "down")
	check()
}

func TestUsable(t *testing.T) {
	err := Usable(strings.NewReader(""), &strings.Builder{}, []string{"TERM=xterm"})
	if !errors.Is(err, hsm.ErrNoTerminal) || hint.Of(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestTooSmall: nothing breaks on a tiny terminal.
func TestTooSmall(t *testing.T) {
	r := newRig(t, newFake(), 100, 30, atEnroll)
	toPIN(r)
	for w := 1; w < 64; w += 3 {
		for h := 1; h < 24; h++ {
			r.Send(tea.WindowSizeMsg{Width: w, Height: h})
			checkFrame(t, r.m.View(), w, h)
		}
	}
}
