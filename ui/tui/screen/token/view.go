package token

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
	head := m.head(f)
	body := f.With(f.Width, f.Height-len(head))
	if len(m.details.Slots) == 0 {
		what := "No keys yet: n makes one."
		if !m.loaded || !m.info.Initialized {
			what = ""
		}
		return widget.Block(strings.Join(append(head, t.Muted.Render(what)), "\n"), f.Width, f.Height)
	}
	rest := widget.Split(t, body.Width, body.Height,
		func(w, h int) string { return m.list(f.With(w, h)) },
		func(w int) []string { return m.side(f, w) })
	return strings.Join(append(head, rest), "\n")
}

func (m *Model) head(f screen.Frame) []string {
	t := f.Theme
	pin, level := present.PIN(m.info, m.details.Details)
	parts := []string{t.Level(level).Render(t.Marked(present.Fact{Value: pin, Level: level}))}
	for _, s := range present.Secrets(m.info, m.details.Details)[1:] {
		s.Value = strings.Replace(s.Name, "Management", "management", 1) + " " + s.Value
		parts = append(parts, t.Level(s.Level).Render(t.Marked(s)))
	}
	about := []string{present.Kind(m.info)}
	for _, x := range []string{m.info.Serial, prefixed("firmware ", m.info.Firmware)} {
		if x = text.Clean(x); x != "" {
			about = append(about, x)
		}
	}
	lines := []string{widget.Cut(t.Muted.Render(strings.Join(about, " "+t.Glyphs.Dot+" ")), f.Width),
		widget.Cut(strings.Join(parts, t.Faint.Render(" "+t.Glyphs.Dot+" ")), f.Width)}
	switch {
	case m.gone:
		lines = append(lines, t.Warn.Render(t.Glyphs.Warn+" The token is not there: "+m.info.Place().Back()+"."))
	case !m.info.Initialized:
		lines = append(lines, t.Text.Render("It is not initialized yet: I initializes it."))
	case m.err != nil:
		lines = append(lines, widget.Failure(t, m.err, f.Width)...)
	case m.job.Active() && !m.loaded:
		lines = append(lines, widget.Working(t, "Reading the token", m.job.Began, f.Now))
	}
	if f.Height >= 16 {
		lines = append(lines, "")
	}
	return lines
}

func prefixed(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

func (m *Model) list(f screen.Frame) string {
	t := f.Theme
	c := m.measure.For(f.Width)
	lines := []string{"  " + t.Faint.Render(c.Heading())}
	m.height = max(f.Height-1, 1)
	from, to := m.nav.Window(len(m.details.Slots), m.height)
	for i := from; i < to; i++ {
		lead := "  "
		if i == m.nav.Index {
			lead = t.Accent.Render(t.Glyphs.Mark) + " "
		}
		lines = append(lines, widget.Row(i, lead+c.Slot(f, m.details.Slots[i], i == m.nav.Index)))
	}
	return widget.Block(strings.Join(lines, "\n"), f.Width, f.Height)
}

func (m *Model) side(f screen.Frame, w int) []string {
	s, ok := m.slot()
	if !ok {
		return nil
	}
	t := f.Theme
	lines := []string{t.Title.Render(widget.Cut("Slot "+present.Slot(s), w))}
	return append(append(lines, widget.Facts(t, present.SlotFacts(s, f.Now), w)...), "")
}
