package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// What tests of the whole program see of the root model m, and send it.

// OpenDialogs is how many dialogs are open.
func OpenDialogs(m tea.Model) int { return len(m.(*model).dialogs.stack) }

// Prompter asks by dialogs.
func Prompter(m tea.Model) ask.Func { return m.(*model).prompter }

// Top is the screen in front.
func Top(m tea.Model) screen.Screen { return m.(*model).nav.top() }

// Everywhere are the root's own actions.
func Everywhere(m tea.Model) []screen.Action { return m.(*model).everywhere().Actions() }

// OutcomeOf returns the outcome of an operation so far.
func OutcomeOf(m tea.Model) Outcome { return m.(*model).outcome }

// Working reports whether the dialog in front only shows that an operation runs.
func Working(m tea.Model) bool {
	if OpenDialogs(m) == 0 {
		return false
	}
	_, work := m.(*model).dialogs.top().(*dialog.Work)
	return work
}

// Ticks are how many ticks are under way.
func Ticks(m tea.Model) int {
	n := 0
	for _, under := range []bool{m.(*model).ticking, m.(*model).polling} {
		if under {
			n++
		}
	}
	return n
}

// Tick is the message that animations wait for.
func Tick() tea.Msg { return tickMsg{} }

// Poll is the message that makes screens look again.
func Poll() tea.Msg { return pollMsg{} }
