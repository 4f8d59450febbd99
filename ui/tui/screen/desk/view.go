package desk

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t := f.Theme
	var head []string
	switch {
	case m.err != nil:
		head = append(widget.Failure(t, m.err, f.Width), t.Muted.Render("r tries again."))
	case !m.loaded:
		head = append(head, widget.Working(t, "Asking the cluster", m.job.Began, f.Now))
	case m.tokens.Len() == 0 && m.unasked == "" && !m.hidden:
		head = append(head, t.Text.Render(present.NoTokens),
			t.Muted.Render("t makes a ticket, with which one person joins the cluster."))
	}
	switch {
	case m.unasked != "":
		shown := ""
		if !m.seenAt.IsZero() {
			shown = present.SeenAt(m.seenAt)
		}
		head = append(widget.Lines(t, present.Unasked(m.unasked, shown, "the cluster's tickets"), f.Width), head...)
	case m.hidden && m.err == nil:
		head = append(head, widget.Paragraph(t.Muted,
			"You may not list the cluster's tickets: who may can read all its secrets.", f.Width)...)
	}
	foot := m.foot(f)
	if m.tokens.Len() == 0 {
		return widget.Block(strings.Join(append(append(head, ""), foot...), "\n"), f.Width, f.Height)
	}
	m.tokens.Cells = func(r row) []widget.Cell {
		said := present.TokenRowOf(r.BootstrapToken, f.Now)
		left := t.Marked(present.Fact{Value: said.Left.Words, Level: said.Left.Level})
		return []widget.Cell{{Text: said.Kind, Style: t.Strong}, {Text: text.Clean(r.ID), Style: t.Muted},
			{Text: left, Style: t.Level(said.Left.Level)},
			{Text: said.For, Style: t.Text}, {Text: said.Usages, Style: t.Muted}}
	}
	room := f.Height - len(head) - len(foot)
	if room < 4 {
		foot, room = nil, f.Height-len(head)
	}
	return strings.Join(append(append(head, m.tokens.View(t, f.Width, room)), foot...), "\n")
}

// foot tells of what is there for emergencies, and what went wrong beside.
func (m *Model) foot(f screen.Frame) []string {
	t := f.Theme
	var lines []string
	for _, g := range m.glasses {
		e := present.EmergencyOf(g)
		st := t.Text
		if e.State.Level >= present.Warn {
			st = t.Warn
		}
		lines = append(lines, widget.Fit(st.Render(t.Glyphs.Dot+" "+e.Kind+": "+e.Name+" ("+e.User+"), until "+e.Until+", "+
			e.State.Words), f.Width))
	}
	for _, n := range m.notes {
		lines = append(lines, widget.Fit(t.Warn.Render(t.Glyphs.Warn+" "+text.Clean(n)), f.Width))
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines[:min(len(lines), f.Height/3)]
}
