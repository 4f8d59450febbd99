// Package doctor is the screen of what stands between a person and signing in:
// each thing that was looked at, why it matters, and what mends it.
package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/describe"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Backend looks; see [doctor.Run].
type Backend interface {
	Diagnose(ctx context.Context, online bool, report func(doctor.Check)) []doctor.Check
}

// Services are what the screen works with; the root passes them.
type Services struct {
	Backend Backend
	Runner  *task.Runner
	Keys    keys.Map
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	job    task.Handle
	checks []doctor.Check
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

// New returns the screen.
func New(s Services) *Model {
	m := &Model{Services: s}
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
		all := m.Backend.Diagnose(ctx, true, func(c doctor.Check) { m.Runner.Send(checkMsg{id: id, check: c}) })
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
			m.list.Set(m.checks)
		}
	case doneMsg:
		if msg.id == m.job.ID {
			m.job.Done()
			m.done, m.checks = true, msg.checks
			m.list.Set(m.checks)
			m.worstFirst()
		}
	case tea.KeyPressMsg, tea.PasteMsg:
		if m.list.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

// worstFirst puts the cursor on what is worst.
func (m *Model) worstFirst() {
	for _, s := range []doctor.State{doctor.Failed, doctor.Warning} {
		if i := slices.IndexFunc(m.checks, func(c doctor.Check) bool { return c.State == s }); i >= 0 {
			m.list.Select(m.checks[i].ID)
			return
		}
	}
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	c, ok := m.list.Selected()
	switch {
	case key.Matches(k, m.Keys.Back):
		return screen.Send(screen.BackMsg{})
	case key.Matches(k, m.Keys.Refresh):
		return m.Open(now)
	case key.Matches(k, m.Keys.Command):
		return screen.Send(screen.CommandMsg{Title: "The same by command", Lines: []string{"kubehsm doctor", "kubehsm doctor --bundle report.zip"}})
	case !ok:
	case key.Matches(k, m.Keys.Enter):
		return screen.Send(screen.TextMsg{Title: c.Title, Lines: sentences(c), What: "fix", Copy: c.Fix})
	case key.Matches(k, m.Keys.Copy) && c.Fix != "":
		return screen.Send(screen.CopyMsg{What: "fix", Text: c.Fix})
	}
	return nil
}

func sentences(c doctor.Check) []string {
	lines := []string{c.Found}
	if c.Why != "" {
		lines = append(lines, "", c.Why)
	}
	if c.Fix != "" {
		lines = append(lines, "", "To mend it: "+c.Fix)
	}
	return lines
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return []screen.Action{{Key: keys.As(m.Keys.Enter, "keep")}, {Key: keys.As(m.Keys.Back, "clear")}}
	}
	c, ok := m.list.Selected()
	none, noFix := "", ""
	if !ok {
		none, noFix = "nothing is selected", "nothing is selected"
	} else if c.Fix == "" {
		noFix = "there is nothing to do"
	}
	return []screen.Action{{Key: keys.As(m.Keys.Enter, "read"), Reason: none}, {Key: keys.As(m.Keys.Copy, "copy fix"), Reason: noFix},
		{Key: keys.As(m.Keys.Refresh, "look again")}, {Key: m.Keys.Filter}, {Key: m.Keys.Command, Quiet: true}}
}

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t := f.Theme
	head := []string{m.summary(f)}
	if f.Height >= 16 {
		head = append(head, "")
	}
	if m.list.Len() == 0 {
		return widget.Block(strings.Join(head, "\n"), f.Width, f.Height)
	}
	m.list.Cells = func(c doctor.Check) []widget.Cell {
		glyph, level := t.Glyphs.Done, describe.Good
		switch c.State {
		case doctor.Failed:
			glyph, level = t.Glyphs.Failed, describe.Bad
		case doctor.Warning:
			glyph, level = t.Glyphs.Warn, describe.Warn
		case doctor.Unknown:
			glyph, level = "?", describe.Warn
		case doctor.Note:
			glyph, level = t.Glyphs.Dot, describe.Quiet
		}
		st := describe.Style(t, level)
		return []widget.Cell{{Text: glyph + " " + string(c.State), Style: st}, {Text: text.Clean(c.Title), Style: t.Strong}, {Text: text.Clean(c.Found), Style: t.Text}}
	}
	body := widget.Split(t, f.Width, f.Height-len(head),
		func(w, h int) string { return m.list.View(t, w, h) },
		func(w int) []string {
			c, ok := m.list.Selected()
			if !ok {
				return nil
			}
			lines := []string{t.Title.Render(widget.Cut(text.Clean(c.Title), w))}
			for _, s := range sentences(c) {
				lines = append(lines, widget.Paragraph(t.Text, text.Clean(s), w)...)
			}
			return append(lines, "")
		})
	return strings.Join(append(head, body), "\n")
}

func (m *Model) summary(f screen.Frame) string {
	t := f.Theme
	if !m.done {
		return widget.Working(t, "Looking at everything between you and your clusters", m.job.Began, f.Now)
	}
	n := map[doctor.State]int{}
	for _, c := range m.checks {
		n[c.State]++
	}
	switch {
	case n[doctor.Failed] > 0:
		return t.Bad.Render(t.Glyphs.Failed + " " + widget.Count(n[doctor.Failed], "thing") + " in the way of signing in")
	case n[doctor.Warning] > 0:
		return t.Warn.Render(t.Glyphs.Warn + " " + widget.Count(n[doctor.Warning], "warning") + "; nothing is in the way of signing in")
	}
	return t.Good.Render(t.Glyphs.Done + " nothing is in the way of signing in")
}
