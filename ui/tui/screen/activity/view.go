package activity

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t := f.Theme
	head := m.head(f)
	body := f.Height - len(head)
	if m.open {
		if m.sessions.Len() == 0 {
			return widget.Block(strings.Join(append(head, t.Muted.Render("Nothing is open.")), "\n"), f.Width, f.Height)
		}
		m.sessions.Cells = func(o present.Open) []widget.Cell {
			return []widget.Cell{{Text: o.What, Style: t.Text}, {Text: o.Enrollment, Style: t.Strong},
				{Text: t.Marked(present.Fact{Value: o.State, Level: o.Level}), Style: t.Level(o.Level)}}
		}
		return strings.Join(append(head, m.sessions.View(t, f.Width, body)), "\n")
	}
	if m.list.Len() == 0 {
		return widget.Block(strings.Join(append(head, t.Muted.Render(present.NoRecords+" for the last 7 days.")), "\n"),
			f.Width, f.Height)
	}
	m.list.Cells = func(r record) []widget.Cell {
		return []widget.Cell{{Text: present.Age(f.Now.Sub(r.Time)), Style: t.Muted}, {Text: r.said.Event, Style: t.Strong},
			{Text: r.said.Outcome.Words, Style: t.Level(r.said.Outcome.Level)}, {Text: r.said.Enrollment, Style: t.Text},
			{Text: r.said.Program, Style: t.Muted}, {Text: r.said.Detail, Style: t.Text}}
	}
	return strings.Join(append(head, m.list.View(t, f.Width, body)), "\n")
}

func (m *Model) head(f screen.Frame) []string {
	t := f.Theme
	var lines []string
	switch {
	case m.err != nil:
		lines = widget.Failure(t, m.err, f.Width)
	case !m.asked:
		lines = []string{widget.Working(t, "Asking the agent", m.ask.Began, f.Now)}
	case !m.running:
		lines = []string{t.Muted.Render(t.Glyphs.Off + " " + present.NoAgent)}
	default:
		lines = m.state(f, t)
	}
	if m.logErr != nil {
		lines = append(lines, widget.Failure(t, m.logErr, f.Width)...)
	}
	if f.Height >= 16 {
		lines = append(lines, "")
	}
	return lines
}

func (m *Model) state(f screen.Frame, t theme.Theme) []string {
	s := m.status
	unlocked := 0
	for _, x := range s.Tokens {
		if x.Unlocked {
			unlocked++
		}
	}
	lock := t.Good.Render(t.Glyphs.Off + " all locked")
	if unlocked > 0 {
		lock = t.Accent.Render(fmt.Sprintf("%s %s unlocked", t.Glyphs.On, present.Count(unlocked, "token")))
	}
	dot := t.Faint.Render("  " + t.Glyphs.Dot + "  ")
	parts := []string{lock, t.Text.Render(present.Count(present.Sessions(s), "session")),
		t.Text.Render(present.Count(int(s.Signatures), "signature")),
		t.Muted.Render("agent " + present.AgentProcess(s, f.Now))}
	lines := []string{widget.Cut(strings.Join(parts, dot), f.Width)}
	for _, c := range s.Consents {
		lines = append(lines, widget.Cut(t.Warn.Render(t.Glyphs.Warn+" "+text.Clean(c.Enrollment)+" "+
			present.AwaitsYes(c.Request)), f.Width))
	}
	for _, p := range present.AgentProblems(s) {
		lines = append(lines, widget.Cut(t.Bad.Render(t.Glyphs.Failed+" "+p), f.Width))
	}
	return lines
}
