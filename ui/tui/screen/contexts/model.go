// Package contexts is the screen of the kubeconfig's contexts: how each signs
// in, how long that is good for, whether it works; and what moves a key into a
// token, renews, takes back, removes.
package contexts

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
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

// health is the last check of one context.
type health struct {
	job   task.Handle
	waits string // thing that the sign-in waits for, raw
	done  bool
	session.Health
	err error
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	list    widget.List[contexts.View]
	checks  map[string]*health // by context
	ends    map[string]enroll.Expiring
	reading task.Handle
}

var _ screen.Screen = (*Model)(nil)

type (
	healthMsg struct {
		id   task.ID
		name string
		session.Health
		err error
	}
	waitsMsg struct {
		id   task.ID
		name string
		line string
	}
	endsMsg struct {
		id  task.ID
		all []enroll.Expiring
	}
)

// New returns the screen.
func New(s Services) *Model {
	m := &Model{Services: s, checks: map[string]*health{}, ends: map[string]enroll.Expiring{}}
	m.list = widget.List[contexts.View]{
		Columns: []widget.Column{{Title: "CONTEXT"}, {Title: "SIGNS IN BY", Width: 17}, {Title: "EXPIRES", Width: 11},
			{Title: "HEALTH", Width: 9}, {Title: "SERVER", From: 84}},
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

// readEnds reads when the certificates of enrollments end.
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
func (m *Model) Close() {
	m.reading.Cancel()
	for _, h := range m.checks {
		h.job.Cancel()
	}
}

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.list.Filter.Typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool {
	for _, h := range m.checks {
		if h.job.Active() {
			return true
		}
	}
	return !m.Store.Contexts.Loaded
}

func (m *Model) fill() {
	first := m.list.Len() == 0
	all := m.Store.Contexts.Value
	m.list.Set(all)
	if i := slices.IndexFunc(all, func(c contexts.View) bool { return c.Current }); first && i >= 0 {
		m.list.Select(all[i].Name)
	}
}

// contextOf names the context of an enrollment, which has its name unless it was renamed.
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
	case healthMsg:
		if h := m.checks[msg.name]; h != nil && h.job.ID == msg.id {
			h.job.Done()
			h.done, h.Health, h.err = true, msg.Health, msg.err
		}
	case waitsMsg:
		if h := m.checks[msg.name]; h != nil && h.job.ID == msg.id {
			h.waits = msg.line
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
		if !ok || key.Matches(k, m.Keys.Back) && m.stop() {
			return nil
		}
		cmd, _ := m.Press(k, m.acts(now), func() tea.Cmd { return m.Open(now) })
		return cmd
	}
	return nil
}

// check signs in to c's cluster in the background; the list stays usable.
func (m *Model) check(c contexts.View, now time.Time) tea.Cmd {
	if old := m.checks[c.Name]; old != nil {
		old.job.Cancel()
	}
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		ctx = screen.WithProgress(ctx, func(line string) { m.Runner.Send(waitsMsg{id, c.Name, line}) })
		r, err := m.Agent.CheckContext(ctx, c.Name)
		return healthMsg{id: id, name: c.Name, Health: r, err: err}
	})
	m.checks[c.Name] = &health{job: h}
	return cmd
}

// checking tells whether the check of the context under the cursor goes on.
func (m *Model) checking() bool {
	c, ok := m.list.Selected()
	h := m.checks[c.Name]
	return ok && h != nil && h.job.Active()
}

// stop ends the check of the context under the cursor, if one goes on.
func (m *Model) stop() bool {
	checking := m.checking()
	if checking {
		c, _ := m.list.Selected()
		m.checks[c.Name].job.Cancel()
		delete(m.checks, c.Name)
	}
	return checking
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return screen.Filtering(m.Keys)
	}
	actions := m.Acts().Actions()
	if m.checking() {
		actions = append([]screen.Action{{Key: keys.As(m.Keys.Back, "stop the check")}}, actions...)
	}
	return append(actions, screen.Action{Key: m.Keys.Filter}, screen.Action{Key: m.Keys.Refresh, Quiet: true})
}

func clean(s string) string { return text.Clean(s) }
