package home

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// scale is the axis of the timeline, from now to its last mark. Marks have equal distances: an hour
// matters today, a month in two years.
type scale []mark

type mark struct {
	left  time.Duration
	label string
}

const day = 24 * time.Hour

func marks() scale {
	return scale{{time.Hour, "1 h"}, {6 * time.Hour, "6 h"}, {day, "1 d"}, {7 * day, "1 w"}, {30 * day, "1 mo"},
		{90 * day, "3 mo"}, {365 * day, "1 y"}, {5 * 365 * day, "5 y"}, {20 * 365 * day, "20 y"}, {100 * 365 * day, "100 y"}}
}

const leastMarks = 4

// scaleOf returns the shortest scale that shows every future end.
func scaleOf(all []enroll.Expiring, now time.Time) scale {
	s := marks()
	from, to := len(s)-1, 0
	for _, c := range all {
		left := c.NotAfter.Sub(now)
		if c.Err != nil || left <= 0 {
			continue
		}
		at := 0
		for at < len(s)-1 && s[at].left < left {
			at++
		}
		from, to = min(from, at), max(to, at)
	}
	to = max(to, leastMarks-1)
	from = max(min(from, to-leastMarks+1), 0)
	return s[from : to+1]
}

func (s scale) at(left time.Duration, w int) int {
	before := time.Duration(0)
	for i, m := range s {
		if left <= m.left {
			share := float64(i) + float64(max(left, 0)-before)/float64(m.left-before)
			return min(int(share/float64(len(s))*float64(w)), w-1)
		}
		before = m.left
	}
	return w - 1
}

func (s scale) columns(w int) []int {
	all := make([]int, len(s))
	for i := range s {
		all[i] = (i+1)*w/len(s) - 1
	}
	return all
}

func (s scale) axis(w int) string {
	const now = "now"
	line := now
	for i, at := range s.columns(w) {
		if gap := at + 1 - len(s[i].label) - len(line); gap > 0 {
			line += strings.Repeat(" ", gap) + s[i].label
		}
	}
	return line[:min(len(line), max(w, 0))]
}

func (s scale) grid(t theme.Theme, from, w int) string {
	line := ""
	for _, at := range s.columns(w) {
		if gap := at - from; gap >= 0 {
			line += strings.Repeat(" ", gap) + t.Faint.Render(t.Glyphs.Bar)
			from = at + 1
		}
	}
	return line
}

func (s scale) bar(t theme.Theme, c enroll.Expiring, now time.Time, w int) string {
	if w < 1 {
		return ""
	}
	left := c.NotAfter.Sub(now)
	style := t.Level(present.Ends(c, now).Level)
	if c.Err != nil || left <= 0 {
		return style.Render(t.Glyphs.Failed) + s.grid(t, 1, w)
	}
	at := s.at(left, w)
	return style.Render(strings.Repeat(t.Glyphs.Rule, at)+t.Glyphs.On) + s.grid(t, at+1, w)
}

// The widths of the chart's columns, and from which width on it has the date.
const (
	mostName   = 26
	dateColumn = 20
	datesFrom  = 96
)

func (m *Model) timeline(f screen.Frame, w, h int, fill bool) []string {
	t, ends, all := f.Theme, m.ends(), h
	if len(ends) == 0 || h < 1 {
		return nil
	}
	name, state := 0, 0
	words := make([]string, len(ends))
	for i, c := range ends {
		said := present.Ends(c, f.Now)
		words[i] = t.Marked(present.Fact{Value: said.Words, Level: said.Level})
		name, state = max(name, widget.Width(text.Clean(c.Name))), max(state, widget.Width(words[i]))
	}
	name = min(name, mostName, max(w/4, 8))
	date := 0
	if w >= datesFrom {
		date = dateColumn + 2
	}
	chart := max(w-2-name-2-2-date-state, 0)
	s := scaleOf(ends, f.Now)

	lines := []string{}
	if h > 1 {
		lines = append(lines, t.Faint.Render(strings.Repeat(" ", name+4)+s.axis(chart)))
		h--
	}
	rows := 1 // lines of one certificate
	for rows < 3 && (rows+1)*len(ends) <= h {
		rows++
	}
	m.height = max(h/rows, 1)
	hidden := ""
	if len(ends) > m.height && m.height > 1 {
		m.height--
		hidden = present.Count(len(ends)-m.height, "more certificate")
	}
	from, to := m.nav.Window(len(ends), m.height)
	for i := from; i < to; i++ {
		c := ends[i]
		mark, style := "  ", t.Strong
		if i == m.nav.Index {
			mark, style = t.Accent.Render(t.Glyphs.Mark)+" ", t.Selected
		}
		line := mark + style.Render(widget.Fit(text.Clean(c.Name), name)) + "  " +
			widget.Fit(s.bar(t, c, f.Now, chart), chart) + "  "
		if date > 0 {
			line += t.Muted.Render(widget.Fit(present.Date(c.NotAfter), date))
		}
		line += t.Level(present.Ends(c, f.Now).Level).Render(words[i])
		lines = append(lines, widget.Row(i, widget.Cut(line, w)))
		if rows > 1 {
			lines = append(lines, widget.Row(i, m.about(t, c, s, name, chart)))
		}
		if rows > 2 {
			lines = append(lines, strings.Repeat(" ", name+4)+s.grid(t, 0, chart))
		}
	}
	if hidden != "" {
		return append(lines, t.Faint.Render("  "+hidden))
	}
	if fill { // the chart goes on to the bottom
		for len(lines) < all {
			lines = append(lines, strings.Repeat(" ", name+4)+s.grid(t, 0, chart))
		}
	}
	return lines
}

func (m *Model) about(t theme.Theme, c enroll.Expiring, s scale, name, chart int) string {
	who := text.Clean(c.User)
	if c.Server != "" {
		who += " at " + text.Clean(c.Server)
	}
	room := name + 2
	if widget.Width(who) > name {
		room = min(widget.Width(who)+2, name+2+chart)
	}
	return "  " + t.Muted.Render(widget.Fit(widget.Cut(who, room-2), room)) + s.grid(t, room-name-2, chart)
}
