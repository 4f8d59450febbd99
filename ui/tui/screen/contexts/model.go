// Package contexts is the screen of the kubeconfig's contexts: how each signs
// in and how long that is good for; and what moves a key into a
// token, renews, takes back, removes.
package contexts

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Services are what the screen works with; the root passes them.
type Services struct {
	screen.Tools
	Contexts contexts.Contexts
	Renewer  enroll.Renewer
	Agent    session.Agent
	Store    *store.Store
	// Enroll makes the wizard, filled.
	Enroll func(enrolling.Options) screen.Screen
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	list    widget.List[contexts.View]
	ends    map[string]enroll.Expiring
	reading task.Handle
}

var _ screen.Screen = (*Model)(nil)

type endsMsg struct {
	id  task.ID
	all []enroll.Expiring
}

// New returns the screen.
func New(s Services) *Model {
	m := &Model{Services: s, ends: map[string]enroll.Expiring{}}
	m.list = widget.List[contexts.View]{
		Columns: []widget.Column{{Title: "CONTEXT"}, {Title: "SIGNS IN BY", Width: 17}, {Title: "EXPIRES", Width: 11},
			{Title: "SERVER", From: 84}},
		Key: func(c contexts.View) string { return c.Name },
		Words: func(c contexts.View) string {
			return strings.Join([]string{c.Name, c.Cluster, c.Server, c.User, c.UserKind, c.Enrollment}, " ")
		},
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Contexts }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Contexts" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd {
	m.fill()
	return tea.Batch(m.Store.LoadContexts(now), m.readEnds(now))
}

func (m *Model) readEnds(now time.Time) tea.Cmd {
	m.reading.Cancel()
	h, cmd := m.Runner.Start(now, func(_ context.Context, id task.ID) tea.Msg {
		all, err := m.Renewer.Expiring(now)
		if err != nil { // each that could be read is in all
			m.Runner.Send(screen.ToastMsg{Text: err.Error(), Warn: true})
		}
		return endsMsg{id: id, all: all}
	})
	m.reading = h
	return cmd
}

// Close implements [screen.Screen].
func (m *Model) Close() { m.reading.Cancel() }

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.list.Filter.Typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return !m.Store.Contexts.Loaded }

func (m *Model) fill() {
	first := m.list.Len() == 0
	all := m.Store.Contexts.Value
	m.list.Set(all)
	if i := slices.IndexFunc(all, func(c contexts.View) bool { return c.Current }); first && i >= 0 {
		m.list.Select(all[i].Name)
	}
}

// contextOf returns the enrollment's context, which has its name unless the person renamed it.
func contextOf(all []contexts.View, enrollment string) string {
	for _, c := range all {
		if c.Enrollment == enrollment {
			return c.Name
		}
	}
	return enrollment
}

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case store.ContextsMsg:
		m.fill()
	case endsMsg:
		if msg.id == m.reading.ID {
			m.reading.Done()
			clear(m.ends)
			for _, e := range msg.all {
				m.ends[e.Name] = e
			}
		}
	case screen.ArgumentMsg: // an enrollment
		m.list.Select(contextOf(m.Store.Contexts.Value, msg.Value))
	case screen.ChangedMsg:
		return tea.Batch(m.Store.LoadContexts(now), m.readEnds(now))
	case tea.KeyPressMsg, tea.PasteMsg, widget.RowMsg:
		if m.list.Update(msg, m.Keys) {
			return nil
		}
		k, ok := msg.(tea.KeyPressMsg)
		if !ok {
			return nil
		}
		cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.Open(now) })
		return cmd
	}
	return nil
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return screen.Filtering(m.Keys)
	}
	return append(m.Acts().Actions(), screen.Action{Key: m.Keys.Filter}, screen.Action{Key: m.Keys.Refresh, Quiet: true})
}

func clean(s string) string { return text.Clean(s) }
