package desk

import (
	"strings"
	"time"

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
	case m.tokens.Len() == 0:
		head = append(head, t.Text.Render("No ticket and no bootstrap token is out."), t.Muted.Render("t makes a ticket, with which one person joins the cluster."))
	}
	if m.own && m.err == nil {
		head = append(head, widget.Paragraph(t.Muted, "Only tickets that were made from here: whoever may list a cluster's can read all its secrets.", f.Width)...)
	}
	foot := m.foot(f)
	if m.tokens.Len() == 0 {
		return widget.Block(strings.Join(append(append(head, ""), foot...), "\n"), f.Width, f.Height)
	}
	m.tokens.Cells = func(r row) []widget.Cell {
		left, level := countdown(r.Expires, f.Now)
		if level >= present.Warn {
			left = t.Glyphs.Warn + " " + left
		}
		return []widget.Cell{{Text: r.kind(), Style: t.Strong}, {Text: text.Clean(r.ID), Style: t.Muted}, {Text: left, Style: t.Level(level)},
			{Text: r.who(), Style: t.Text}, {Text: text.Clean(strings.Join(r.Usages, ", ")), Style: t.Muted}}
	}
	room := f.Height - len(head) - len(foot)
	if room < 4 {
		foot, room = nil, f.Height-len(head)
	}
	return strings.Join(append(append(head, m.tokens.View(t, f.Width, room)), foot...), "\n")
}

// countdown says how long something is still good.
func countdown(until *time.Time, now time.Time) (string, present.Level) {
	if until == nil {
		return "for ever", present.Warn
	}
	switch left := until.Sub(now); {
	case left <= 0:
		return "expired", present.Bad
	case left < 10*time.Minute:
		return present.Elapsed(left), present.Warn
	default:
		return present.Elapsed(left), present.Good
	}
}

// foot tells of what is there for emergencies, and what went wrong beside.
func (m *Model) foot(f screen.Frame) []string {
	t := f.Theme
	var lines []string
	for _, g := range m.glasses {
		kind := "break-glass"
		if g.Sealed {
			kind = "sealed for emergencies"
		}
		st := t.Text
		if g.State != "live" {
			st = t.Warn
		}
		lines = append(lines, widget.Fit(st.Render(t.Glyphs.Dot+" "+kind+": "+text.Clean(g.Name+" ("+g.User+"), "+g.State+", until "+present.Date(g.NotAfter))), f.Width))
	}
	for _, n := range m.notes {
		lines = append(lines, widget.Fit(t.Warn.Render(t.Glyphs.Warn+" "+text.Clean(n)), f.Width))
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines[:min(len(lines), f.Height/3)]
}
