package tui

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
)

// atToken goes to the screen of the card, on slot 9a.
func atToken(r *rig) {
	atTokens(r)
	r.Press("down", "down", "enter")
	r.Sees("Meant for", "PUK default, 3 of 3")
}

// working tells whether an operation runs and has the keys.
func (r *rig) working() bool {
	n := len(r.m.dialogs.stack)
	if n == 0 {
		return false
	}
	_, work := r.m.dialogs.top().(*dialog.Work)
	return work
}

// opens presses a key and waits for the dialog that it opens.
func (r *rig) opens(name string) {
	r.T.Helper()
	r.Press(name)
	r.Until(name+" opens a dialog", func() bool { return len(r.m.dialogs.stack) > 0 && !r.working() })
}

// steps presses keys one by one; a letter opens a dialog.
func (r *rig) steps(names ...string) {
	r.T.Helper()
	for _, n := range names {
		if len(n) == 1 {
			r.opens(n)
			continue
		}
		r.Press(n)
	}
}

// did waits for a deed of the fake.
func (r *rig) did(f *fakeBackend, want string) {
	r.T.Helper()
	r.Until("did "+want, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Contains(f.deeds, want) && !r.working()
	})
}

// TestTokenDeeds walks to each deed by keys, as a person would.
func TestTokenDeeds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jane.pem")
	if err := os.WriteFile(file, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	serial := []string{`"12345678"`, "enter"}
	for _, c := range []struct {
		name string
		keys []string
		sees string // before the rest is typed
		rest []string
		did  string
	}{
		{"PIN", []string{"p"}, "PIN of trial", nil, ""},
		{"retries", []string{"T", "backspace", `"5"`, "enter"}, "number of tries", nil, "retries 5 3"},
		{"too many retries", []string{"T", `"9"`, "enter"}, "a number from 1 to 15", nil, ""},
		{"reset", []string{"X"}, "Type 12345678", serial, "reset"},
		{"delete key", []string{"D"}, "prod-hsm", serial, "delete key 9a of 1"},
		{"delete certificate", []string{"C"}, "Type 12345678", serial, "delete certificate 9a"},
		{"move", []string{"m"}, "To slot", []string{"down", "enter"}, "move 9a to 9e"},
		{"overwrite", []string{"n", "enter"}, "Destroy what is in slot 9a", serial, "generate ecdsa-p256 in \"9a\", overwrite=true"},
		{"new key in an empty slot", []string{"end", "n"}, "A new key in slot 9e", []string{"enter"}, "generate ecdsa-p256 in \"9e\", overwrite=false"},
		{"import", []string{"i", `"` + file + `"`, "enter"}, "on the token", nil, "import 3 bytes"},
		{"management key on the card", []string{"M", "enter"}, "is replaced", nil, "management key protect=true "},
		{"management key", []string{"M", "down", "enter"}, "made and shown here once", []string{"enter"}, "management key protect=false "},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			r := newRig(t, f, 100, 40)
			atToken(r)
			r.steps(c.keys...)
			r.Sees(c.sees)
			r.Press(c.rest...)
			if c.did != "" {
				r.did(f, c.did)
			}
		})
	}
}

// TestShownOnce: a management key that nobody keeps is shown until it is kept,
// and cannot be copied.
func TestShownOnce(t *testing.T) {
	r := newRig(t, newFake(), 100, 40)
	atToken(r)
	r.steps("M", "down", "enter")
	r.Sees("made and shown here once")
	r.Press("enter")
	r.Sees("abcd", "Have you kept it?")
	r.Press("c", "n")
	r.Sees("abcd", "Have you kept it?")
	r.Press("y")
	r.Sees("the management key is replaced")
	if strings.Contains(r.View(), "abcd") || strings.Contains(r.View(), "copied") {
		t.Errorf("it is still there:\n%s", r.View())
	}
}

// TestWrongSerial: nothing happens before the serial is there.
func TestWrongSerial(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.Press("D")
	r.Sees("Type 12345678")
	r.Press(`"1234567"`, "enter")
	r.Sees("Type 12345678")
	r.Press("esc")
	r.Sees("Delete the key: cancelled")
	if len(f.deeds) != 0 {
		t.Errorf("did %q", f.deeds)
	}
}

// TestFailureStays: an error and its hint stay until they are dismissed.
func TestFailureStays(t *testing.T) {
	f := newFake()
	f.deedErr = hsm.WithHint(errors.New("the PUK is locked"), "reset the card")
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.Press("u")
	r.Sees("error: the PUK is locked", "hint: reset the card")
	r.Time = r.Time.Add(toastFor * 3)
	r.Send(tickMsg{})
	r.Sees("error: the PUK is locked")
	r.Press("esc")
	r.Until("dismissed", func() bool { return !strings.Contains(r.View(), "PUK is locked") })
}

// TestUnverifiedAttestation says so, in capitals.
func TestUnverifiedAttestation(t *testing.T) {
	f := newFake()
	f.attestErr = errNotRooted
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.Press("t")
	r.Sees("NOT verified", "no root that is trusted")
}

// TestReadOnly: what changes something is greyed, by key, by palette, and
// refused even if a screen asks.
func TestReadOnly(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40, func(_ *rig, o *Options) { o.ReadOnly = true })
	atToken(r)
	r.Sees("read-only")
	for k, says := range map[string]string{"p": "change PIN: read-only mode", "X": "reset the token: read-only mode"} {
		r.Press(k)
		r.Sees(says)
	}
	r.Press("ctrl+p", `"reset"`)
	r.Sees("reset the token (read-only mode)")
	r.Press("enter")
	if len(r.m.dialogs.stack) != 1 {
		t.Error("the palette ran it")
	}
	r.Press("esc", "t")
	r.Sees("Yubico PIV Root CA") // looking is allowed
	r.Press("esc", "4")
	r.Sees("1 session")
	r.Press("S")
	r.Sees("stop the agent: read-only mode")
	r.Press("L") // that keeps nothing from anybody
	r.did(f, "lock the agent")
	for _, w := range []int{60, 80, 100, 200} { // it is said at every size
		r.Send(tea.WindowSizeMsg{Width: w, Height: 24})
		if head, _, _ := strings.Cut(r.View(), "\n"); !strings.Contains(head, "Activity") || !strings.HasSuffix(strings.TrimSpace(head), "read-only") {
			t.Errorf("%d columns: %q", w, head)
		}
	}
}

// TestTokenGoes: an unplugged token is told, and read again when it is back.
func TestTokenGoes(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40)
	atToken(r)
	all := f.tokens
	f.set(func() { f.tokens = all[:1] })
	r.Run(r.m.store.LoadTokens(r.Time))
	r.Sees("The token is not there")
	r.Press("p")
	r.Sees("change PIN: the token is not there")
	f.set(func() { f.tokens = all })
	r.Run(r.m.store.LoadTokens(r.Time))
	r.Until("back", func() bool { return !strings.Contains(r.View(), "Plug it in again") })
}

// TestDoneCommands: x also shows the commands of what was done.
func TestDoneCommands(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.Press("u")
	r.Sees("the new PIN is set")
	r.Press("x")
	r.Sees("Done before", "kubehsm token pin unblock --token")
}

// TestBusy: a card that GnuPG's daemon holds can be had from where it is told.
func TestBusy(t *testing.T) {
	f := newFake()
	f.deedErr = &hsm.BusyError{Reader: "Yubico", Holders: []string{hsm.Scdaemon + " (process 7)"}}
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.Press("u")
	r.Sees("s have scdaemon let go")
	r.Press("esc")
	f.set(func() {
		f.problems = []hsm.Problem{{Source: "Yubico", Err: &hsm.BusyError{Reader: "Yubico", Holders: []string{hsm.Scdaemon + " (process 7)"}}}}
	})
	r.Press("esc")
	r.Sees("enter open")
	r.Press("r")
	r.Until("offered", func() bool { return strings.Contains(r.View(), "have scdaemon let go") })
}
