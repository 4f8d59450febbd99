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
	r.press("down", "down", "enter")
	r.sees("Meant for", "PUK default, 3 of 3")
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
	r.t.Helper()
	r.press(name)
	r.until(name+" opens a dialog", func() bool { return len(r.m.dialogs.stack) > 0 && !r.working() })
}

// steps presses keys one by one; a letter opens a dialog.
func (r *rig) steps(names ...string) {
	r.t.Helper()
	for _, n := range names {
		if len(n) == 1 {
			r.opens(n)
			continue
		}
		r.press(n)
	}
}

// did waits for a deed of the fake.
func (r *rig) did(f *fakeBackend, want string) {
	r.t.Helper()
	r.until("did "+want, func() bool {
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
			r.sees(c.sees)
			r.press(c.rest...)
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
	r.sees("made and shown here once")
	r.press("enter")
	r.sees("abcd", "Have you kept it?")
	r.press("c", "n")
	r.sees("abcd", "Have you kept it?")
	r.press("y")
	r.sees("the management key is replaced")
	if strings.Contains(r.view(), "abcd") || strings.Contains(r.view(), "copied") {
		t.Errorf("it is still there:\n%s", r.view())
	}
}

// TestWrongSerial: nothing happens before the serial is there.
func TestWrongSerial(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.press("D")
	r.sees("Type 12345678")
	r.press(`"1234567"`, "enter")
	r.sees("Type 12345678")
	r.press("esc")
	r.sees("Delete the key: cancelled")
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
	r.press("u")
	r.sees("error: the PUK is locked", "hint: reset the card")
	r.now = r.now.Add(toastFor * 3)
	r.send(tickMsg{})
	r.sees("error: the PUK is locked")
	r.press("esc")
	r.until("dismissed", func() bool { return !strings.Contains(r.view(), "PUK is locked") })
}

// TestUnverifiedAttestation says so, in capitals.
func TestUnverifiedAttestation(t *testing.T) {
	f := newFake()
	f.attestErr = errNotRooted
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.press("t")
	r.sees("NOT verified", "no root that is trusted")
}

// TestReadOnly: what changes something is greyed, by key, by palette, and
// refused even if a screen asks.
func TestReadOnly(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40, func(_ *rig, o *Options) { o.ReadOnly = true })
	atToken(r)
	r.sees("read-only")
	for k, says := range map[string]string{"p": "change PIN: read-only mode", "X": "reset the token: read-only mode"} {
		r.press(k)
		r.sees(says)
	}
	r.press("ctrl+p", `"reset"`)
	r.sees("reset the token (read-only mode)")
	r.press("enter")
	if len(r.m.dialogs.stack) != 1 {
		t.Error("the palette ran it")
	}
	r.press("esc", "t")
	r.sees("Yubico PIV Root CA") // looking is allowed
	r.press("esc", "4")
	r.sees("1 session")
	r.press("S")
	r.sees("stop the agent: read-only mode")
	r.press("L") // that keeps nothing from anybody
	r.did(f, "lock the agent")
	for _, w := range []int{60, 80, 100, 200} { // it is said at every size
		r.send(tea.WindowSizeMsg{Width: w, Height: 24})
		if head, _, _ := strings.Cut(r.view(), "\n"); !strings.Contains(head, "Activity") || !strings.HasSuffix(strings.TrimSpace(head), "read-only") {
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
	r.run(r.m.store.LoadTokens(r.now))
	r.sees("The token is not there")
	r.press("p")
	r.sees("change PIN: the token is not there")
	f.set(func() { f.tokens = all })
	r.run(r.m.store.LoadTokens(r.now))
	r.until("back", func() bool { return !strings.Contains(r.view(), "Plug it in again") })
}

// TestDoneCommands: x also shows the commands of what was done.
func TestDoneCommands(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.press("u")
	r.sees("the new PIN is set")
	r.press("x")
	r.sees("Done before", "kubehsm token pin unblock --token")
}

// TestBusy: a card that GnuPG's daemon holds can be had from where it is told.
func TestBusy(t *testing.T) {
	f := newFake()
	f.deedErr = &hsm.BusyError{Reader: "Yubico", Holders: []string{hsm.Scdaemon + " (process 7)"}}
	r := newRig(t, f, 100, 40)
	atToken(r)
	r.press("u")
	r.sees("s have scdaemon let go")
	r.press("esc")
	f.set(func() {
		f.problems = []hsm.Problem{{Source: "Yubico", Err: &hsm.BusyError{Reader: "Yubico", Holders: []string{hsm.Scdaemon + " (process 7)"}}}}
	})
	r.press("esc")
	r.sees("enter open")
	r.press("r")
	r.until("offered", func() bool { return strings.Contains(r.view(), "have scdaemon let go") })
}
