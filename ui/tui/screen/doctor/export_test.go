package doctor

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/doctor"
)

// Found is an answer with checks that do not depend on the computer that a test runs on. It
// is nil until the screen has checks of its own.
func Found(given []tea.Msg, checks []doctor.Check) tea.Msg {
	over := func(m tea.Msg) bool { _, done := m.(doneMsg); return done }
	if !slices.ContainsFunc(given, over) {
		return nil
	}
	return doneMsg{checks: checks} // the number 0 is right, as no look is under way by now
}
