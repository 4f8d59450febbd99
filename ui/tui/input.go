package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// key routes a key: ctrl-c always leaves, a dialog takes all others, letters
// are text while something is typed, then come the root's own keys, and what
// is left is the screen's.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	typing := m.nav.top().Typing()
	switch {
	case key.Matches(k, m.keys.Leave):
		m.outcome.Interrupted = true
		return tea.Quit
	case key.Matches(k, m.keys.Suspend):
		return tea.Suspend
	case m.dialogs.any():
		return m.toTop(k)
	case !typing && key.Matches(k, m.keys.Help):
		return m.dialogs.open(0, m.help(), m.now)
	case !typing && key.Matches(k, m.keys.Quit):
		return m.quit()
	case !typing && key.Matches(k, m.keys.Palette), k.String() == "ctrl+p":
		return m.dialogs.open(0, dialog.NewPalette(m.keys, m.entries()), m.now)
	case !typing && key.Matches(k, m.keys.Sections):
		return m.nav.bring(int(k.Text[0]-'1'), m.now)
	}
	if reason := m.refusal(k, typing); reason != "" {
		m.toasts.add(screen.ToastMsg{Text: reason, Warn: true}, m.now)
		return nil
	}
	return m.nav.top().Update(k, m.now)
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
	why := m.nav.leave()
	if why == "" {
		return tea.Quit
	}
	return m.dialogs.open(0, dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Leave?", Detail: why}, m.keys, tea.Quit),
		m.now)
}

// actions lists what keys do on the screen in front; in read-only mode what
// changes something is greyed.
func (m *model) actions() []screen.Action {
	actions := m.nav.top().Actions()
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

// pressMsg stands for a key that was chosen in the palette.
type pressMsg struct{ key tea.KeyPressMsg }

// entries are the palette's: what keys do here, the screens, what is always there.
func (m *model) entries() []dialog.Entry {
	var all []dialog.Entry
	press := func(a screen.Action) {
		if names := a.Key.Keys(); len(names) > 0 {
			all = append(all, dialog.Entry{Name: a.Key.Help().Desc, Key: a.Key.Help().Key, Reason: a.Reason,
				Verbs: a.Verbs(), Message: pressMsg{keyPress(names[0])}})
		}
	}
	var here []string
	for _, a := range m.actions() {
		press(a)
		here = append(here, a.Verbs()...)
	}
	for i, s := range m.nav.sections {
		e := dialog.Entry{Name: "go to " + s.title, Key: string(rune('1' + i)), Message: screen.GoMsg{To: s.id}}
		if i == m.nav.at {
			e.Reason = "you are there"
		} else if there, ok := s.make().(screen.Actor); ok {
			for _, a := range there.Acts() {
				e.Verbs = append(e.Verbs, a.Verbs()...)
			}
			e.Verbs = slices.DeleteFunc(e.Verbs, func(verb string) bool { return slices.Contains(here, verb) })
		}
		all = append(all, e)
	}
	press(screen.Action{Key: m.keys.Help})
	press(screen.Action{Key: m.keys.Quit})
	return all
}

// keyPress is the message of a key's name in the key map.
func keyPress(name string) tea.KeyPressMsg {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp,
		"down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete,
		"space": tea.KeySpace}
	if c, ok := named[name]; ok {
		return tea.KeyPressMsg{Code: c}
	}
	if name == "shift+tab" {
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	}
	r := []rune(name)
	if len(r) == 1 {
		return tea.KeyPressMsg{Code: r[0], Text: name}
	}
	return tea.KeyPressMsg{Code: r[len(r)-1], Mod: tea.ModCtrl} // "ctrl+x"
}

// help makes the overlay from the bindings that are live now.
func (m *model) help() dialog.Dialog {
	k := m.keys
	var everywhere []screen.Action
	for _, b := range []key.Binding{k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End,
		k.Back, k.Palette, k.Sections, k.Help, k.Quit, k.Suspend, keys.As(k.Leave, "leave at once, whatever is under way")} {
		everywhere = append(everywhere, screen.Action{Key: b})
	}
	return dialog.NewHelp(k, dialog.Group{Name: m.nav.top().Title(), Actions: m.actions()},
		dialog.Group{Name: "Everywhere", Actions: everywhere})
}
