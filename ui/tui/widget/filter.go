package widget

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Filter is the line that "/" opens: it narrows a list to the rows that hold
// every word typed, in any case.
type Filter struct {
	input Input
	open  bool
}

// Open starts typing.
func (f *Filter) Open() { f.open = true }

// Typing reports whether letters are text now.
func (f *Filter) Typing() bool { return f.open }

// Active reports whether the list is narrowed or the line is open.
func (f *Filter) Active() bool { return f.open || f.input.Value() != "" }

// Clear ends filtering.
func (f *Filter) Clear() { *f = Filter{} }

// Update takes keys while the line is open: enter keeps the filter, esc drops
// it, the arrows are left to the list. It reports whether the message was its own.
func (f *Filter) Update(msg tea.Msg) bool {
	if !f.open {
		return false
	}
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch k.String() {
		case "enter":
			f.open = false
			return true
		case "esc":
			f.Clear()
			return true
		case "backspace":
			if f.input.Value() == "" {
				f.Clear()
				return true
			}
		case "up", "down", "pgup", "pgdown":
			return false
		}
	}
	return f.input.Update(msg)
}

// Match reports whether a row that reads s stays.
func (f *Filter) Match(s string) bool { return f.Matcher()(strings.ToLower(s)) }

// Matcher returns [Filter.Match] for what is typed now, of lower-case text: for
// long lists.
func (f *Filter) Matcher() func(lower string) bool {
	words := strings.Fields(strings.ToLower(f.input.Value()))
	return func(lower string) bool {
		for _, word := range words {
			if !strings.Contains(lower, word) {
				return false
			}
		}
		return true
	}
}

// View draws the line.
func (f *Filter) View(t theme.Theme, w int) string {
	return t.Accent.Render("/") + " " + f.input.View(t, w-2, f.open)
}
