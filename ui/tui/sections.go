package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/screen/activity"
	"github.com/kubehsm/kubehsm/ui/tui/screen/contexts"
	"github.com/kubehsm/kubehsm/ui/tui/screen/desk"
	"github.com/kubehsm/kubehsm/ui/tui/screen/doctor"
	"github.com/kubehsm/kubehsm/ui/tui/screen/enroll"
	"github.com/kubehsm/kubehsm/ui/tui/screen/requests"
	"github.com/kubehsm/kubehsm/ui/tui/screen/token"
	"github.com/kubehsm/kubehsm/ui/tui/screen/tokens"
)

// section is one screen of the top level and what was opened from it. It is
// made when it is first gone to and goes on when another one is in front.
type section struct {
	id    screen.ID
	title string
	make  func() screen.Screen
	stack []screen.Screen
}

// makeSections lists the screens of the top level, in the order of their numbers.
func (m *model) makeSections() []*section {
	return []*section{
		{id: screen.Tokens, title: "Tokens", make: func() screen.Screen {
			return tokens.New(m.store, m.keys, tokens.Openers{Enroll: m.enrollScreen, Token: m.tokenScreen})
		}},
		{id: screen.Contexts, title: "Contexts", make: func() screen.Screen {
			return contexts.New(contexts.Services{Services: services[contexts.Backend](m, m.backend), Store: m.store,
				Enroll: func(o flow.EnrollOptions) screen.Screen { return enroll.New(m.services(), enroll.Start{Options: o}) }})
		}},
		{id: screen.Requests, title: "Requests", make: func() screen.Screen {
			return requests.New(services[requests.Backend](m, m.backend))
		}},
		{id: screen.Activity, title: "Activity", make: func() screen.Screen {
			return activity.New(services[activity.Backend](m, m.backend))
		}},
		{id: screen.HelpDesk, title: "Help desk", make: func() screen.Screen {
			return desk.New(desk.Services{Services: services[desk.Backend](m, m.backend), Store: m.store})
		}},
		{id: screen.Doctor, title: "Doctor", make: func() screen.Screen {
			return doctor.New(services[doctor.Backend](m, m.backend))
		}},
	}
}

// services are what a screen works with that needs no more of the use cases than B.
func services[B any](m *model, b B) screen.Services[B] {
	return screen.Services[B]{Backend: b, Runner: m.runner, Keys: m.keys}
}

// tokenScreen makes the screen of one token.
func (m *model) tokenScreen(v flow.TokenView, slot *hsm.Slot) screen.Screen {
	return token.New(token.Services{Services: services[token.Backend](m, m.backend), Store: m.store, Enroll: m.enrollScreen}, v, slot)
}

func (m *model) here() *section { return m.sections[m.at] }

func (m *model) top() screen.Screen {
	stack := m.here().stack
	return stack[len(stack)-1]
}

// front brings the section at index i to the front; others go on behind it.
func (m *model) front(i int) tea.Cmd {
	if i < 0 || i >= len(m.sections) {
		return nil
	}
	m.at = i
	s := m.here()
	if len(s.stack) > 0 {
		return nil
	}
	first := s.make()
	s.stack = []screen.Screen{first}
	return first.Open(m.now)
}

// goTo brings the section called id to the front.
func (m *model) goTo(id screen.ID) tea.Cmd {
	for i, s := range m.sections {
		if s.id == id {
			return m.front(i)
		}
	}
	return nil
}

// argument tells the screen that was gone to what to show.
func (m *model) argument(g screen.GoMsg) tea.Cmd {
	if g.Argument == "" {
		return nil
	}
	for len(m.here().stack) > 1 { // it is the first one's
		m.top().Close()
		m.here().stack = m.here().stack[:len(m.here().stack)-1]
	}
	return m.top().Update(screen.ArgumentMsg{To: g.To, Value: g.Argument}, m.now)
}

// back takes the top screen off; below the last one are the tokens.
func (m *model) back() tea.Cmd {
	s := m.here()
	if len(s.stack) == 1 {
		return m.front(0)
	}
	m.top().Close()
	s.stack = s.stack[:len(s.stack)-1]
	return nil
}

// pressMsg stands for a key that was chosen in the palette.
type pressMsg struct{ key tea.KeyPressMsg }

// entries are the palette's: what keys do here, the screens, what is always there.
func (m *model) entries() []dialog.Entry {
	var all []dialog.Entry
	press := func(a screen.Action) {
		if names := a.Key.Keys(); len(names) > 0 {
			all = append(all, dialog.Entry{Name: a.Key.Help().Desc, Key: a.Key.Help().Key, Reason: a.Reason, Message: pressMsg{keyPress(names[0])}})
		}
	}
	for _, a := range m.actions() {
		press(a)
	}
	for i, s := range m.sections {
		e := dialog.Entry{Name: "go to " + s.title, Key: string(rune('1' + i)), Message: screen.GoMsg{To: s.id}}
		if i == m.at {
			e.Reason = "you are there"
		}
		all = append(all, e)
	}
	press(screen.Action{Key: m.keys.Help})
	press(screen.Action{Key: m.keys.Quit})
	return all
}

// keyPress is the message of a key's name in the key map.
func keyPress(name string) tea.KeyPressMsg {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "space": tea.KeySpace}
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
