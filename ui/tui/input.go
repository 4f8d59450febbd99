package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// key routes a key: ctrl-c always leaves, a dialog takes all others, letters
// are text while something is typed, then come the root's own keys, and what
// is left is the screen's.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	typing := m.top().Typing()
	switch {
	case key.Matches(k, m.keys.Leave):
		m.outcome.Interrupted = true
		return tea.Quit
	case key.Matches(k, m.keys.Suspend):
		return tea.Suspend
	case len(m.dialogs) > 0:
		return m.toTop(k)
	case !typing && key.Matches(k, m.keys.Help):
		return m.open(0, m.help())
	case !typing && key.Matches(k, m.keys.Quit):
		return m.quit()
	case !typing && key.Matches(k, m.keys.Palette), k.String() == "ctrl+p":
		return m.open(0, dialog.NewPalette(m.keys, m.entries()))
	case !typing && key.Matches(k, m.keys.Sections):
		return m.front(int(k.Text[0] - '1'))
	}
	if reason := m.refusal(k, typing); reason != "" {
		m.toast(reason, true)
		return nil
	}
	return m.top().Update(k, m.now)
}

// refusal says why k cannot be used now, "" if it can or is no action's key.
func (m *model) refusal(k tea.KeyPressMsg, typing bool) string {
	if typing && k.Text != "" {
		return ""
	}
	reason := ""
	for _, a := range m.actions() {
		if !key.Matches(k, a.Key) {
			continue
		}
		if a.Reason == "" {
			return ""
		}
		reason = a.Key.Help().Desc + ": " + a.Reason
	}
	return reason
}

// quit leaves, after a second thought where something is under way.
func (m *model) quit() tea.Cmd {
	why := ""
	for _, sec := range m.sections {
		for _, s := range sec.stack {
			if w := s.Leave(); w != "" {
				why = w
			}
		}
	}
	if why == "" {
		return tea.Quit
	}
	return m.open(0, dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Leave?", Detail: why}, m.keys, tea.Quit))
}

// actions lists what keys do on the screen in front; in read-only mode what
// changes something is greyed.
func (m *model) actions() []screen.Action {
	actions := m.top().Actions()
	if !m.readOnly {
		return actions
	}
	for i, a := range actions {
		if a.Writes && a.Reason == "" {
			actions[i].Reason = readOnlyReason
		}
	}
	return actions
}

const readOnlyReason = "read-only mode"

// wheel moves a list as the arrows do.
func (m *model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	code := tea.KeyDown
	switch msg.Button {
	case tea.MouseWheelUp:
		code = tea.KeyUp
	case tea.MouseWheelDown:
	default:
		return nil
	}
	return m.key(tea.KeyPressMsg{Code: code})
}

// help makes the overlay from the bindings that are live now.
func (m *model) help() dialog.Dialog {
	k := m.keys
	var everywhere []screen.Action
	for _, b := range []key.Binding{k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End,
		k.Back, k.Palette, k.Sections, k.Help, k.Quit, k.Suspend, keys.As(k.Leave, "leave at once, whatever is under way")} {
		everywhere = append(everywhere, screen.Action{Key: b})
	}
	return dialog.NewHelp(k, dialog.Group{Name: m.top().Title(), Actions: m.actions()},
		dialog.Group{Name: "Everywhere", Actions: everywhere})
}
