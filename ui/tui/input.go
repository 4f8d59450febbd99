package tui

import (
	"strconv"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// key routes a key: ctrl-c always quits, a dialog takes all others, then the text field, then the
// screen's own keys, then the common ones.
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
	case typing && k.Text != "":
		return m.nav.top().Update(k, m.now)
	}
	if reason, own := m.refusal(k); reason != "" {
		m.toasts.add(screen.ToastMsg{Text: reason, Warn: true}, m.now)
		return nil
	} else if !own {
		if cmd, ok := m.everywhere().Press(k); ok {
			return cmd
		}
		if key.Matches(k, m.keys.Sections) {
			return m.nav.bring(int(k.Text[0]-'0'), m.now)
		}
	}
	return m.nav.top().Update(k, m.now)
}

// refusal is the reason why k does nothing now, if there is one; own reports whether k belongs to
// the screen in front.
func (m *model) refusal(k tea.KeyPressMsg) (reason string, own bool) {
	for _, a := range m.actions() {
		if !key.Matches(k, a.Key) {
			continue
		}
		if own = true; a.Reason == "" {
			return "", true
		}
		reason = a.Key.Help().Desc + ": " + a.Reason
	}
	return reason, own
}

func (m *model) quit() tea.Cmd {
	why := m.nav.leave()
	if why == "" {
		return tea.Quit
	}
	return m.dialogs.open(0, dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Leave?", Detail: why}, m.keys, tea.Quit),
		m.now)
}

func (m *model) actions() []screen.Action {
	actions := m.nav.top().Actions()
	for i, a := range actions {
		actions[i] = m.allowed(a)
	}
	return actions
}

func (m *model) allowed(a screen.Action) screen.Action {
	if m.readOnly && a.Writes && a.Reason == "" {
		a.Reason = readOnlyReason
	}
	return a
}

const readOnlyReason = "read-only mode"

type pointer struct {
	zones []widget.Zone // zones of the last frame
	last  widget.Zone   // row of the last click, if nothing happened since
}

// wheel moves a list as the arrow keys do. It never changes the answer to a question.
func (m *model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	up, down := tea.KeyUp, tea.KeyDown
	if m.dialogs.any() {
		if _, asks := m.dialogs.top().(*dialog.Confirm); asks {
			up, down = tea.KeyPgUp, tea.KeyPgDown
		}
	}
	switch msg.Button {
	case tea.MouseWheelUp:
		return m.key(tea.KeyPressMsg{Code: up})
	case tea.MouseWheelDown:
		return m.key(tea.KeyPressMsg{Code: down})
	}
	return nil
}

func (m *model) click(msg tea.MouseClickMsg) tea.Cmd {
	if msg.Button != tea.MouseLeft {
		return nil
	}
	z, ok := widget.ZoneAt(m.pointer.zones, msg.X, msg.Y)
	if !ok {
		return nil
	}
	again := m.pointer.last == z
	m.pointer.last = widget.Zone{}
	if name, ok := strings.CutPrefix(z.Name, widget.ZoneKey); ok {
		return m.key(keyPress(name))
	}
	kind, number, _ := strings.Cut(z.Name, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	switch kind + ":" {
	case widget.ZoneTab:
		return m.nav.bring(n, m.now)
	case widget.ZoneOption:
		return m.toTop(widget.OptionMsg{Option: n})
	case widget.ZoneRow:
		if again {
			return m.key(tea.KeyPressMsg{Code: tea.KeyEnter})
		}
		m.pointer.last = z
		return m.toTop(widget.RowMsg{Row: n})
	}
	return nil
}
