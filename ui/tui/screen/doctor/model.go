// Package doctor is the screen of what stands between a person and signing in:
// each thing that was looked at, why it matters, and what mends it.
package doctor

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Model is the screen.
type Model struct {
	screen.Base
	screen.Tools
	look   doctor.Options
	job    task.Handle
	checks []doctor.Check
	all    bool // The list has the checks that passed, too.
	done   bool
	list   widget.List[doctor.Check]
}

var _ screen.Screen = (*Model)(nil)

type (
	checkMsg struct {
		id    task.ID
		check doctor.Check
	}
	doneMsg struct {
		id     task.ID
		checks []doctor.Check
	}
)

// New returns the screen of what is looked at by o.
func New(t screen.Tools, o doctor.Options) *Model {
	m := &Model{Tools: t, look: o}
	m.list = widget.List[doctor.Check]{
		Columns: []widget.Column{{Width: 9}, {Title: "WHAT", Width: 24}, {Title: "FOUND"}},
		Key:     func(c doctor.Check) string { return c.ID },
		Words:   func(c doctor.Check) string { return c.Group + " " + c.Title + " " + c.Found + " " + string(c.State) },
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Doctor }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Doctor" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd {
	m.job.Cancel()
	m.checks, m.done = nil, false
	m.list.Set(nil)
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		all := doctor.Run(ctx, m.look, func(c doctor.Check) { m.Runner.Send(checkMsg{id: id, check: c}) })
		return doneMsg{id: id, checks: all}
	})
	m.job = h
	return cmd
}

// Close implements [screen.Screen].
func (m *Model) Close() { m.job.Cancel() }

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.list.Filter.Typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.job.Active() }

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case checkMsg:
		if msg.id == m.job.ID && !m.done {
			m.checks = append(m.checks, msg.check)
			m.fill()
		}
	case doneMsg:
		if msg.id == m.job.ID {
			m.job.Done()
			m.done, m.checks = true, msg.checks
			m.fill()
			m.toWhatMatters()
		}
	case tea.KeyPressMsg, tea.PasteMsg, widget.RowMsg:
		if m.list.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

func (m *Model) fill() {
	if m.all {
		m.list.Set(m.checks)
		return
	}
	problems, _ := doctor.Problems(m.checks)
	m.list.Set(problems)
}

func (m *Model) toWhatMatters() {
	for _, state := range []doctor.State{doctor.Failed, doctor.Warning} {
		if i := slices.IndexFunc(m.checks, func(c doctor.Check) bool { return c.State == state }); i >= 0 {
			m.list.Select(m.checks[i].ID)
			return
		}
	}
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.Open(now) })
	return cmd
}

// Acts implements [screen.Actor].
func (m *Model) Acts() screen.Acts {
	c, ok := m.list.Selected()
	none := screen.When(!ok, "nothing is selected")
	return screen.Acts{
		screen.On(screen.Action{Key: keys.As(m.Keys.Enter, "read"), Reason: none}, "", func() tea.Cmd {
			return screen.Send(screen.TextMsg{Title: c.Title, Lines: sentences(c), What: "fix", Copy: c.Fix})
		}),
		screen.On(screen.Action{Key: keys.As(m.Keys.Copy, "copy fix"),
			Reason: screen.Because(none, screen.When(c.Fix == "", "there is nothing to do"))}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "fix", Text: c.Fix})
		}),
		screen.On(
			screen.Action{Key: keys.As(m.Keys.Next, map[bool]string{false: "show all", true: "show problems"}[m.all])},
			"",
			func() tea.Cmd { m.all = !m.all; m.fill(); return nil },
		),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "doctor", func() tea.Cmd {
			return screen.Send(screen.CommandMsg{Title: present.SameTitle,
				Lines: []string{"kubehsm doctor"}})
		}),
	}
}

func sentences(c doctor.Check) []string {
	lines := []string{c.Found}
	for _, l := range c.Advice() {
		lines = append(lines, "", l)
	}
	return lines
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return screen.Filtering(m.Keys)
	}
	return append(m.Acts().Actions(), screen.Action{Key: keys.As(m.Keys.Refresh, "look again")},
		screen.Action{Key: m.Keys.Filter})
}
