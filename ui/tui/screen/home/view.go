package home

import (
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// From which width on the timeline stands beside the rest, and how wide the rest is then.
const (
	besideWidth = 150
	sideWidth   = 64
)

type room int

// The amounts of room.
const (
	scant  room = iota // lines that matter most
	tight              // the same, and the cluster
	spaced             // space between the parts
	roomy              // titles, too
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	o := m.Store.Overview
	if !o.Loaded {
		since, _ := o.Loading()
		return widget.Block(widget.Working(f.Theme, "Reading your status", since, f.Now), f.Width, f.Height)
	}
	if f.Width < besideWidth {
		return widget.Block(strings.Join(m.column(f), "\n"), f.Width, f.Height)
	}
	side := f.With(sideWidth, f.Height)
	above, below := m.parts(side, roomy)
	w := f.Width - sideWidth - 4
	chart := []string{f.Theme.Title.Render(present.EndsTitle)}
	if len(m.ends()) == 0 {
		chart = append(chart, f.Theme.Muted.Render("Nothing is enrolled yet."))
	}
	chart = append(chart, m.timeline(f, w, f.Height-1, true)...)
	gap := " " + f.Theme.Faint.Render(f.Theme.Glyphs.Bar) + "  "
	left := draw(f, append(above, below...), roomy)
	return widget.Beside(widget.Block(strings.Join(left, "\n"), side.Width, f.Height), side.Width, gap,
		widget.Block(strings.Join(chart, "\n"), w, f.Height))
}

type part struct {
	title string
	lines []string
}

// column draws the parts one below the other, with as much space between them as the timeline
// leaves.
func (m *Model) column(f screen.Frame) []string {
	need := 1 + min(len(m.ends()), max(f.Height/3, 4))
	for r := roomy; ; r-- {
		above, below := m.parts(f, r)
		left := f.Height - len(draw(f, append(above[:len(above):len(above)], below...), r))
		if r >= spaced {
			left--
		}
		if r == roomy {
			left--
		}
		if left < need && len(m.ends()) > 0 && r > scant {
			continue
		}
		chart := part{present.EndsTitle, m.timeline(f, f.Width, left, false)}
		return draw(f, append(append(above, chart), below...), r)
	}
}

func (m *Model) parts(f screen.Frame, r room) (above, below []part) {
	t, s := f.Theme, m.Store.Status()
	most := max(f.Height/6, 2) // lines of one part that may be many
	lines := func(all []present.Line) []string { return some(f, widget.Lines(t, all, f.Width), most) }
	facts := slices.DeleteFunc(present.OverviewFacts(s, f.Now), func(fact present.Fact) bool {
		return fact.Name == present.InterfacesFact || // the header says it
			fact.Name == present.ClusterFact && r == scant
	})
	if r <= tight { // a line each
		for i := range facts {
			facts[i].Value = widget.Cut(facts[i].Value, f.Width-12)
		}
	}
	return []part{
			{present.ProblemsTitle, lines(present.OverviewProblems(s))},
			{present.AskedTitle, lines(present.AskedNow(s))},
			{"You", widget.Facts(t, facts, f.Width)},
		}, []part{
			{present.UnderWayTitle, lines(present.UnderWay(s, f.Now))},
			{present.NextTitle, next(f, s.Next, r)},
		}
}

func next(f screen.Frame, step overview.Step, r room) []string {
	t := f.Theme
	title := present.StepTitle(step)
	if title == "" {
		return []string{t.Good.Render(t.Glyphs.Done) + " " + t.Text.Render("Nothing to do.")}
	}
	line := t.Accent.Render("n") + " " + t.Strong.Render(title)
	if r < roomy {
		line = t.Muted.Render(present.NextTitle) + "  " + line
		return []string{widget.Click(widget.ZoneKey+"n", widget.Cut(line, f.Width))}
	}
	return []string{
		widget.Click(widget.ZoneKey+"n", widget.Cut(line, f.Width)),
		t.Muted.Render(widget.Cut("  "+text.Clean(step.Command), f.Width)),
	}
}

func some(f screen.Frame, lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	more := f.Theme.Muted.Render("  and " + present.Count(len(lines)-most+1, "more line"))
	return append(lines[:most-1:most-1], more)
}

func draw(f screen.Frame, parts []part, r room) []string {
	var lines []string
	for _, p := range parts {
		if len(p.lines) == 0 {
			continue
		}
		if len(lines) > 0 && r >= spaced {
			lines = append(lines, "")
		}
		if r == roomy {
			lines = append(lines, f.Theme.Title.Render(p.title))
		}
		lines = append(lines, p.lines...)
	}
	return lines
}
