package tui

import (
	"context"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	flowcontexts "github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/screen/activity"
	"github.com/kubehsm/kubehsm/ui/tui/screen/contexts"
)

// everywhere are the actions of every screen that does not use their keys itself.
func (m *model) everywhere() screen.Acts {
	agent := session.Agent{Env: m.flow}
	return screen.Acts{
		screen.On(screen.Action{Key: keys.As(m.keys.Unlock, "unlock the token")}, "unlock", func() tea.Cmd {
			return screen.Operate(contexts.Unlock("kubehsm unlock", agent, func(ctx context.Context) (string, error) {
				e, err := flowcontexts.Meant(ctx, m.flow, "", "")
				return e.Name, err
			}))
		}),
		screen.On(screen.Action{Key: keys.As(m.keys.Lock, "lock every token")}, "agent lock",
			func() tea.Cmd { return screen.Operate(activity.Lock(agent)) }),
		screen.On(screen.Action{Key: m.keys.Palette}, "", func() tea.Cmd {
			return m.dialogs.open(0, dialog.NewPalette(m.keys, m.entries(), m.found), m.now)
		}),
		screen.On(screen.Action{Key: m.keys.Help}, "", func() tea.Cmd { return m.dialogs.open(0, m.help(), m.now) }),
		screen.On(screen.Action{Key: m.keys.Quit}, "", m.quit),
	}
}

type (
	// pressMsg stands for a key that was chosen in the palette or the help.
	pressMsg struct{ key tea.KeyPressMsg }
	// runMsg runs an act of a screen of the top level by its name.
	runMsg struct {
		to     screen.ID
		object string // name of the object, "" for the one under the cursor
		name   string
	}
)

func entry(a screen.Action) dialog.Entry {
	return dialog.Entry{Name: a.Key.Help().Desc, Key: a.Key.Help().Key, Reason: a.Reason, Verbs: a.Verbs(),
		Finds: aliases(a.Verbs()...), Message: pressMsg{keyPress(a.Key.Keys()[0])}}
}

// entries are what the palette shows first: the actions here, the screens, and the actions of every
// screen.
func (m *model) entries() []dialog.Entry {
	var all []dialog.Entry
	var known []string
	for _, a := range m.actions() {
		if len(a.Key.Keys()) > 0 {
			all = append(all, entry(a))
			known = append(known, a.Verbs()...)
		}
	}
	always := m.everywhere()
	for _, a := range always {
		known = append(known, a.Verbs()...)
	}
	for i, s := range m.nav.sections {
		e := dialog.Entry{Name: "go to " + s.title, Key: number(i), Message: screen.GoMsg{To: s.id}}
		if i == m.nav.at {
			e.Reason = "you are there"
		}
		for _, a := range s.acts() {
			e.Verbs = append(e.Verbs, a.Verbs()...)
		}
		e.Verbs = slices.DeleteFunc(e.Verbs, func(verb string) bool { return slices.Contains(known, verb) })
		e.Finds = aliases(e.Verbs...)
		all = append(all, e)
	}
	for _, a := range always {
		if !key.Matches(keyPress(a.Key.Keys()[0]), m.keys.Palette) {
			all = append(all, entry(a.Action))
		}
	}
	return all
}

func (s *section) acts() screen.Acts {
	first := s.first()
	var all screen.Acts
	if a, ok := first.(screen.Actor); ok {
		all = a.Acts()
	}
	if o, ok := first.(screen.Opener); ok {
		all = append(all, o.Below()...)
	}
	return all
}

func (s *section) first() screen.Screen {
	if len(s.stack) == 0 {
		return s.make()
	}
	return s.stack[0]
}

const mostFound = 50

// found are the palette's further matches for words in lower case: actions of other screens and of
// the objects they list.
func (m *model) found(words []string) []dialog.Entry {
	var all []dialog.Entry
	add := func(s *section, i int, a screen.Act, object, more string) {
		e := dialog.Entry{Name: a.Key.Help().Desc + " " + object, Verbs: a.Verbs(), Finds: more + aliases(a.Verb),
			Message: runMsg{to: s.id, object: object, name: a.Key.Help().Desc}}
		if object == "" {
			e.Name, e.Key = s.title+": "+a.Key.Help().Desc, number(i)+" "+a.Key.Help().Key
		}
		e.Name = text.Clean(e.Name)
		if m.allowed(a.Action).Reason == "" && e.Holds(words) {
			all = append(all, e)
		}
	}
	for i, s := range m.nav.sections {
		first := s.first()
		if actor, ok := first.(screen.Actor); ok && i != m.nav.at {
			for _, a := range actor.Acts() {
				if a.Verb != "" && !m.isCommon(a) {
					add(s, i, a, "", "")
				}
			}
		}
		finder, ok := first.(screen.Finder)
		if !ok {
			continue
		}
		for f := range finder.Finds(m.now) {
			for _, a := range f.Acts {
				add(s, i, a, f.Name, f.Words)
			}
			if len(all) > mostFound {
				return all[:mostFound]
			}
		}
	}
	return all
}

func (m *model) isCommon(a screen.Act) bool {
	return slices.ContainsFunc(m.everywhere(), func(x screen.Act) bool { return x.Verb == a.Verb })
}

// aliases are the names that other programs use for the verbs.
func aliases(verbs ...string) string {
	if slices.Contains(verbs, "kubeconfig use") {
		return " ctx use-context"
	}
	return ""
}

// run runs an action that was chosen for a screen not in front. The object may have gone since.
func (m *model) run(msg runMsg) tea.Cmd {
	i := slices.IndexFunc(m.nav.sections, func(s *section) bool { return s.id == msg.to })
	came := m.nav.bring(i, m.now)
	acts := screen.Acts(nil)
	if first := m.nav.here().stack[0]; msg.object == "" {
		acts = first.(screen.Actor).Acts()
	} else {
		for f := range first.(screen.Finder).Finds(m.now) {
			if f.Name == msg.object {
				if acts = f.Acts; f.Select != nil {
					f.Select()
				}
				break
			}
		}
	}
	a, ok := acts.Find(msg.name)
	if ok {
		a.Action = m.allowed(a.Action)
	}
	switch {
	case !ok:
		m.toasts.add(screen.ToastMsg{Text: strings.TrimSpace(msg.name+" "+msg.object) + ": it is not there any more",
			Warn: true}, m.now)
	case a.Reason != "":
		m.toasts.add(screen.ToastMsg{Text: msg.name + ": " + a.Reason, Warn: true}, m.now)
	default:
		return tea.Batch(came, a.Do())
	}
	return came
}

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

func (m *model) help() dialog.Dialog {
	k := m.keys
	group := func(name string, actions []screen.Action) dialog.Group {
		g := dialog.Group{Name: name}
		for _, a := range actions {
			line := dialog.HelpLine{Action: a}
			if len(a.Key.Keys()) > 0 {
				line.Runs = pressMsg{keyPress(a.Key.Keys()[0])}
			}
			g.Lines = append(g.Lines, line)
		}
		return g
	}
	var moves []screen.Action
	for _, b := range []key.Binding{k.Up, k.Down, k.PageUp, k.PageDown, k.Home, k.End, k.Back, k.Sections, k.Suspend,
		keys.As(k.Leave, "quit now, even while something runs")} {
		moves = append(moves, screen.Action{Key: b})
	}
	everywhere := group("Everywhere", slices.DeleteFunc(m.everywhere().Actions(), func(a screen.Action) bool {
		return slices.ContainsFunc(
			m.actions(),
			func(own screen.Action) bool { return own.Key.Help().Key == a.Key.Help().Key },
		)
	}))
	for _, a := range moves {
		everywhere.Lines = append(everywhere.Lines, dialog.HelpLine{Action: a})
	}
	return dialog.NewHelp(k, group(m.nav.top().Title(), m.actions()), everywhere)
}
