package tui_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/tui"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
)

// TestKeys walks from a known screen by keys and says what must be seen.
func TestKeys(t *testing.T) {
	w := newWorld(t) // no case changes it
	for _, c := range []struct {
		name   string
		wizard bool
		start  func(*rig)
		keys   []string
		sees   []string
		not    []string
	}{
		{"help opens", false, atTokens, []string{"?"}, []string{"Keys", "enroll"}, nil},
		{"help scrolls", false, atTokens, []string{"?", "G"}, []string{"Everywhere", "quit now"}, nil},
		{"help closes by q", false, atTokens, []string{"?", "q"}, []string{"trial"}, []string{"Everywhere"}},
		{"filter takes q and ?", false, atTokens, []string{"/", `"q?"`}, []string{"/ q?", "No token or slot matches"}, []string{"Everywhere"}},
		{"filter narrows to a slot and its token", false, atTokens, []string{"/", `"p384"`, "enter"}, []string{"YubiKey", "ecdsa-p384"}, []string{"ecdsa-p256", "SoftHSM v2"}},
		{"esc shows all again", false, atTokens, []string{"/", `"p384"`, "enter", "esc"}, []string{"trial", "ecdsa-p256"}, nil},
		{"vi's letters move", false, atTokens, []string{"j", "j"}, []string{"Slot 9a on"}, nil},
		{"end and home", false, atTokens, []string{"G", "g"}, []string{"▌ trial"}, nil},
		{"enrolling a key goes to the cluster", false, atTokens, []string{"down", "down", "e"}, []string{"slot 9a, which is there"}, nil},
		{"enrolling an empty slot makes a key there", false, atTokens, []string{"end", "enter", "end", "e"}, []string{"new, ecdsa-p256, in slot 9e"}, nil},
		{"esc from there comes back", false, atTokens, []string{"down", "down", "e", "esc"}, []string{"SLOT"}, nil},
		{"x shows the command", false, atTokens, []string{"x"}, []string{"kubehsm enroll --token", "'pkcs11:"}, nil},
		{"a disabled action says why", false, atTokens, []string{"f"}, []string{"copy fingerprint: there is no key"}, nil},
		{"copy says what", false, atTokens, []string{"c"}, []string{"URI copied"}, nil},
		{"q is text in a form", true, toSubject, []string{`"q?x"`}, []string{"q?x"}, []string{"Everywhere"}},
		{"the user is the context's where none is typed", true, toSubject, []string{"enter"}, []string{"This is what", "Who      admin"}, nil},
		{"system:masters is refused", true, toSubject, []string{`"jane"`, "tab", `"dev, system:masters"`, "enter"}, []string{"refuse requests for system:masters"}, []string{"This is what"}},
		{"a bad context name is refused", true, toSubject, []string{`"jane"`, "tab", "tab", "tab", `"Bad Name"`, "enter"}, []string{"a-z, 0-9"}, nil},
		{"a choice moves by arrows", true, toSubject, []string{`"jane"`, "tab", "tab", "down", "down", "enter"}, []string{"jane; for 24 hours"}, nil},
		{"unusable choices are skipped", true, toPolicy, []string{"tab", "end", "enter", "esc"}, []string{"always"}, nil},
		{"esc leaves the wizard", true, toReview, []string{"esc"}, []string{"SLOT"}, nil},
		{"what was chosen stays", true, toReview, []string{"o", "esc", "u", "esc", "s", "esc"}, []string{"Who      jane"}, nil},
		{"the wizard shows its command", true, toReview, []string{"x"}, []string{"kubehsm enroll --name trial-admin-hsm"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := w.open
			if c.wizard {
				open = w.openWizard
			}
			r := open(100, 30)
			defer r.Close()
			c.start(r)
			for _, k := range c.keys {
				r.Press(k)
				r.settle()
				_ = r.View() // frames are drawn between two keys
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

func TestQuit(t *testing.T) {
	r := newWorld(t).open(80, 24)
	atTokens(r)
	r.Press("q")
	r.Until("quit", func() bool { return r.Quit })
	if tui.OutcomeOf(r.Model()).Interrupted {
		t.Error("q is no interrupt")
	}
}

// TestInterrupt: ctrl-c leaves from everywhere, text fields and dialogs too.
func TestInterrupt(t *testing.T) {
	for name, to := range map[string]func(*rig){"form": toSubject, "PIN": toPIN} {
		t.Run(name, func(t *testing.T) {
			r := newWorld(t).openWizard(80, 24)
			to(r)
			r.Press("ctrl+c")
			r.Until("quit", func() bool { return r.Quit })
			if !tui.OutcomeOf(r.Model()).Interrupted {
				t.Error("not told to be interrupted")
			}
		})
	}
}

// TestQuitAsksWhileRunning: q asks before it ends a running enrollment.
func TestQuitAsksWhileRunning(t *testing.T) {
	w := newWorld(t)
	r := w.openWizard(80, 24)
	toReview(r)
	w.soft.Before(func(ctx context.Context, op hsmtest.Op) error { // the token hangs
		if op != hsmtest.OpOpen {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	r.Walk("enter", "~Enrolling", "q", "~Leave?", "~The enrollment stops here")
	r.Press("enter") // the focus is on no
	if r.Quit || tui.OpenDialogs(r.Model()) != 0 {
		t.Fatal("left without a yes")
	}
	r.Walk("q", "~Leave?", "y")
	r.Until("quit", func() bool { return r.Quit })
}

// TestListFailureStays: where no tokens can be listed, the reason stays on the screen.
func TestListFailureStays(t *testing.T) {
	w := newWorld(t)
	must.OK(t, errors.Join(w.Tokens.Close(), w.Cards.Close()))
	w.open(80, 24).Sees("the driver is closed")
}

func TestUsable(t *testing.T) {
	err := tui.Usable(strings.NewReader(""), &strings.Builder{}, []string{"TERM=xterm"})
	if !errors.Is(err, hsm.ErrNoTerminal) || hint.Of(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestTooSmall: nothing breaks on a tiny terminal.
func TestTooSmall(t *testing.T) {
	r := newWorld(t).openWizard(100, 30)
	toPIN(r)
	for w := 1; w < 64; w += 3 {
		for h := 1; h < 24; h++ {
			r.Send(tea.WindowSizeMsg{Width: w, Height: h})
			screentest.CheckFrame(t, r.Frame(), w, h)
		}
	}
}
