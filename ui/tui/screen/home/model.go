// Package home is the screen of where a person stands: who kubectl is, whether the token is
// unlocked, when every certificate ends, which enrollments are under way, what is wrong, and
// what to do next. What it says is made by ui/flow/overview and worded by ui/present, as for
// `kubehsm status`.
package home

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Services are what the screen works with; the root passes them.
type Services struct {
	screen.Tools
	// Store has the overview, which the root keeps fresh.
	Store *store.Store
	// Renew renews the certificate of the enrollment called name.
	Renew func(name string) screen.Operation
	// Unlock asks for the PIN of the token of the enrollment called name, and Lock locks every
	// token.
	Unlock func(name string) screen.Operation
	Lock   func() screen.Operation
	// Enroll makes the screen that enrolls, filled.
	Enroll func(enrolling.Options) screen.Screen
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	nav    widget.Nav // among the certificates
	chosen string     // the enrollment under the cursor: it stays so when others come and go
	height int        // number of certificates in view
}

var _ screen.Screen = (*Model)(nil)

// New returns the screen.
func New(s Services) *Model { return &Model{Services: s} }

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Home }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Home" }

// Animating implements [screen.Screen]: only the first look has a spinner.
func (m *Model) Animating() bool { return !m.Store.Overview.Loaded }

// Watching implements [screen.Screen]. The screen may be open all day, so other programs get the cards
// most of the time.
func (m *Model) Watching() time.Duration { return store.TokensSeldom }

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case store.OverviewMsg:
		for i, c := range m.ends() {
			if c.Name == m.chosen {
				m.nav.Index = i
			}
		}
		m.nav.Clamp(len(m.ends()))
	case widget.RowMsg:
		m.nav.Click(msg, len(m.ends()))
		m.remember()
	case tea.KeyPressMsg:
		if m.nav.Update(msg, m.Keys, len(m.ends()), m.height) {
			m.remember()
			return nil
		}
		cmd, _ := m.Press(msg, m.Acts(), func() tea.Cmd {
			return tea.Batch(m.Store.LoadOverview(now), m.Store.LoadTokens(now))
		})
		return cmd
	}
	return nil
}

func (m *Model) ends() []enroll.Expiring { return m.Store.Overview.Value.Certificates }

func (m *Model) remember() {
	if c, ok := m.selected(); ok {
		m.chosen = c.Name
	}
}

func (m *Model) selected() (c enroll.Expiring, ok bool) {
	if all := m.ends(); m.nav.Index < len(all) {
		return all[m.nav.Index], true
	}
	return c, false
}

// Acts implements [screen.Actor].
func (m *Model) Acts() screen.Acts {
	s := m.Store.Status()
	next := s.Next
	locked := screen.When(s.Lock == overview.Unlocked, "it is unlocked")
	if s.Enrollment == "" {
		locked = "the current context is not kubehsm's"
	}
	unlocked := screen.When(s.Lock != overview.Unlocked, "nothing is unlocked here")
	c, ok := m.selected()
	none := screen.When(!ok, "nothing is enrolled")
	idle := screen.When(next == (overview.Step{}), "there is nothing to do")
	step := keys.Letter("n", "next step")
	if title := present.StepTitle(next); title != "" {
		step = keys.As(step, title)
	}
	return screen.Acts{
		screen.On(screen.Action{Key: step, Writes: next.Deed == overview.Renew, Reason: idle}, "",
			func() tea.Cmd { return m.do(next) }),
		screen.On(screen.Action{Key: m.Keys.Unlock, Reason: locked}, "unlock",
			func() tea.Cmd { return screen.Operate(m.Unlock(s.Enrollment)) }),
		screen.On(screen.Action{Key: m.Keys.Lock, Reason: unlocked}, "agent lock",
			func() tea.Cmd { return screen.Operate(m.Lock()) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Enter, "its context"), Reason: none}, "", func() tea.Cmd {
			return screen.Send(screen.GoMsg{To: screen.Contexts, Argument: c.Name})
		}),
		screen.On(screen.Action{Key: keys.Letter("w", "renew"), Reason: none, Writes: true}, "certificate renew",
			func() tea.Cmd { return screen.Operate(m.Renew(c.Name)) }),
		screen.On(screen.Action{Key: m.Keys.Enroll}, "enroll", func() tea.Cmd { return m.enroll("") }),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "", func() tea.Cmd {
			lines := []string{"kubehsm status"}
			if next.Command != "" {
				lines = append(lines, next.Command)
			}
			return screen.Send(screen.CommandMsg{Title: present.SameTitle, Lines: lines})
		}),
	}
}

func (m *Model) do(s overview.Step) tea.Cmd {
	switch s.Deed {
	case overview.Renew:
		return screen.Operate(m.Renew(s.Name))
	case overview.Examine:
		return screen.Send(screen.GoMsg{To: screen.Doctor})
	}
	return m.enroll(s.Name)
}

func (m *Model) enroll(name string) tea.Cmd {
	return screen.Send(screen.OpenMsg{Screen: m.Enroll(enrolling.Options{Name: name})})
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	return append(m.Acts().Actions(), screen.Action{Key: m.Keys.Refresh, Quiet: true})
}
