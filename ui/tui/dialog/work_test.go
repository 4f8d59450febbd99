package dialog

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// TestWorkUnseen: an esc that was meant for the screen cancels nothing.
func TestWorkUnseen(t *testing.T) {
	cancelled := 0
	d := NewWork(keys.Default(), "Renew", func() { cancelled++ })
	began := time.Unix(1e9, 0)
	d.Open(began)
	esc := tea.KeyPressMsg{Code: tea.KeyEscape}
	d.Update(esc, began.Add(widget.SpinnerDelay-time.Millisecond))
	if cancelled != 0 {
		t.Fatal("cancelled by a key that came before the dialog was seen")
	}
	d.Update(esc, began.Add(widget.SpinnerDelay))
	if cancelled != 1 {
		t.Errorf("cancelled %d times by esc", cancelled)
	}
}
