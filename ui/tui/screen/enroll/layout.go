package enroll

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// From this width on the way through the wizard is a column beside the page;
// below it is one line above it.
const (
	railFrom  = 96
	railWidth = 26
)

// stop is one station on the way through the wizard.
type stop struct {
	name        string
	first, last stage
}

func stops() []stop {
	return []stop{
		{"Token", stageToken, stageToken}, {"Key", stageKey, stagePolicy}, {"Cluster", stageCluster, stageCluster},
		{"Subject", stageSubject, stageSubject}, {"Review", stageReview, stageReview}, {"Enroll", stageRun, stageResult},
	}
}

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	w := way{m.at, m.opts, m.token}
	if m.at == stageResume {
		return widget.Block(m.page().view(f), f.Width, f.Height)
	}
	if f.Width >= railFrom {
		gap := " " + f.Theme.Faint.Render(f.Theme.Glyphs.Bar) + "  "
		room := f.Width - railWidth - 4
		rail := widget.Block(strings.Join(w.rail(f), "\n"), railWidth, f.Height)
		return widget.Beside(rail, railWidth, gap, widget.Block(m.body(f.With(room, f.Height)), room, f.Height))
	}
	if f.Height < 12 {
		return w.line(f) + "\n" + widget.Block(m.body(f.With(f.Width, f.Height-1)), f.Width, f.Height-1)
	}
	return w.line(f) + "\n\n" + widget.Block(m.body(f.With(f.Width, f.Height-2)), f.Width, f.Height-2)
}

// body is the page, below what stops the enrollment.
func (m *Model) body(f screen.Frame) string {
	if m.refused == nil || m.opts.AcceptDefaults || m.at < stageKey || m.at > stageReview {
		return m.page().view(f)
	}
	words := text.Clean(ui.Message(m.refused)) + "; the enrollment stops until they are changed"
	lines := widget.Paragraph(f.Theme.Warn, f.Theme.Glyphs.Warn+" "+words, f.Width)
	return strings.Join(append(lines, m.page().view(f.With(f.Width, max(f.Height-len(lines), 0)))), "\n")
}

// way is the way through the wizard: where we are, and what was chosen so far.
type way struct {
	at    stage
	opts  enrolling.Options
	token *hsm.View
}

// line draws the way as one line: where we are, what lies behind and before.
func (w way) line(f screen.Frame) string {
	t := f.Theme
	var parts []string
	for _, s := range stops() {
		switch {
		case w.at > s.last || w.at == stageResult:
			parts = append(parts, t.Good.Render(t.Glyphs.Done)+" "+t.Muted.Render(s.name))
		case w.at >= s.first:
			parts = append(parts, t.Accent.Render(t.Glyphs.On)+" "+t.Title.Render(s.name))
		default:
			parts = append(parts, t.Faint.Render(t.Glyphs.Off+" "+s.name))
		}
	}
	sep := "  "
	if f.Width >= 70 {
		sep = "    "
	}
	return widget.Cut(strings.Join(parts, sep), f.Width)
}

// rail draws the way as a column, with what was chosen.
func (w way) rail(f screen.Frame) []string {
	t := f.Theme
	var lines []string
	for _, s := range stops() {
		switch {
		case w.at > s.last || w.at == stageResult:
			lines = append(lines, t.Good.Render(t.Glyphs.Done)+" "+t.Text.Render(s.name))
		case w.at >= s.first:
			lines = append(lines, t.Accent.Render(t.Glyphs.On)+" "+t.Title.Render(s.name))
		default:
			lines = append(lines, t.Faint.Render(t.Glyphs.Off+" "+s.name))
		}
		if w.at > s.first {
			for _, v := range w.chosen(s.first) {
				lines = append(lines, "  "+t.Muted.Render(widget.Cut(v, railWidth-2)))
			}
		}
		lines = append(lines, "")
	}
	return lines
}

// chosen says what was chosen at a stage, in a few words each.
func (w way) chosen(s stage) []string {
	o := w.opts
	var out []string
	add := func(v string) {
		if v != "" {
			out = append(out, text.Clean(v))
		}
	}
	switch s {
	case stageToken:
		if w.token != nil {
			add(present.Token(w.token.Info))
			break
		}
		add(o.Token.Token)
	case stageKey:
		switch {
		case o.Key.Scheme != "":
			add("reuse " + present.KeyName(o.Key))
		case w.at > stageKey:
			add("new, " + string(present.EnrolledAlgorithm(o)))
		}
	case stageCluster:
		switch {
		case o.Join != nil && o.Join.Ticket != "":
			add("by ticket")
		case o.Join != nil && o.Join.File != "":
			add("by " + o.Join.File)
		case o.Join != nil:
			add(o.Join.Endpoint)
		case o.Context == "" && w.at > stageCluster:
			add("the current context")
		default:
			add(o.Context)
		}
	case stageSubject:
		add(o.User)
		add(strings.Join(o.Groups, ", "))
	}
	return out
}
