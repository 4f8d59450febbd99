package tui

import (
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

// did waits for a deed of the fake.
func (r *rig) did(f *fakeBackend, want string) {
	r.T.Helper()
	r.Until("did "+want, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Contains(f.deeds, want) && !r.working()
	})
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
	r.Sees("Activity")
	for _, w := range []int{60, 80, 100, 200} { // it is said at every size
		r.Send(tea.WindowSizeMsg{Width: w, Height: 24})
		if head, _, _ := strings.Cut(r.View(), "\n"); !strings.Contains(head, "Activity") || !strings.HasSuffix(strings.TrimSpace(head), "read-only") {
			t.Errorf("%d columns: %q", w, head)
		}
	}
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
