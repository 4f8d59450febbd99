package widget

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
)

// Nav is the cursor of a list and the part of it that is in view.
type Nav struct {
	Index int // the selected row
	top   int // the first row in view
}

// Update moves the cursor among n rows of which height are in view. It tells
// whether the key was one of its own.
func (v *Nav) Update(k tea.KeyPressMsg, m keys.Map, n, height int) bool {
	switch {
	case key.Matches(k, m.Up):
		v.Index--
	case key.Matches(k, m.Down):
		v.Index++
	case key.Matches(k, m.PageUp):
		v.Index -= max(height-1, 1)
	case key.Matches(k, m.PageDown):
		v.Index += max(height-1, 1)
	case key.Matches(k, m.Home):
		v.Index = 0
	case key.Matches(k, m.End):
		v.Index = n - 1
	default:
		return false
	}
	v.Clamp(n)
	return true
}

// Click puts the cursor on the row of n that was clicked. It reports whether msg was a click.
func (v *Nav) Click(msg tea.Msg, n int) bool {
	row, ok := msg.(RowMsg)
	if ok {
		v.Index = row.Row
		v.Clamp(n)
	}
	return ok
}

// Clamp keeps the cursor among n rows.
func (v *Nav) Clamp(n int) { v.Index = max(min(v.Index, n-1), 0) }

// Window returns the range of rows [from, to) to draw in height lines, moving
// as little as keeps the cursor in view.
func (v *Nav) Window(n, height int) (from, to int) {
	v.Clamp(n)
	return v.WindowAt(n, height, v.Index, v.Index)
}

// WindowAt is [Nav.Window] for n lines of which not every one is a row: the
// lines first to last stay in view.
func (v *Nav) WindowAt(n, height, first, last int) (from, to int) {
	height = max(height, 1)
	v.top = min(v.top, first)
	v.top = max(v.top, last-height+1)
	v.top = max(min(v.top, n-height), 0)
	return v.top, min(v.top+height, n)
}
