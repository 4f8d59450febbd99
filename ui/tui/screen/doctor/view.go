package doctor

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/doctor"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t := f.Theme
	head := []string{m.summary(f)}
	if _, passed := doctor.Problems(m.checks); passed > 0 && !m.all {
		head = append(head, t.Muted.Render(widget.Cut(doctor.Passed(passed)+"; tab shows them", f.Width)))
	}
	if f.Height >= 16 {
		head = append(head, "")
	}
	if m.list.Len() == 0 {
		return widget.Block(strings.Join(head, "\n"), f.Width, f.Height)
	}
	m.list.Cells = func(c doctor.Check) []widget.Cell {
		glyph, level := t.Glyphs.Done, c.State.Level()
		switch c.State {
		case doctor.Failed:
			glyph = t.Glyphs.Failed
		case doctor.Warning:
			glyph = t.Glyphs.Warn
		case doctor.Unknown:
			glyph = "?"
		case doctor.Note:
			glyph = t.Glyphs.Dot
		}
		st := t.Level(level)
		return []widget.Cell{{Text: glyph + " " + string(c.State), Style: st}, {Text: text.Clean(c.Title), Style: t.Strong},
			{Text: text.Clean(c.Found), Style: t.Text}}
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
				lines = append(lines, widget.Words(t, t.Text, text.Clean(s), w)...)
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
	_, said := doctor.Summary(m.checks)
	glyph := t.Glyphs.Done
	switch said.Level {
	case present.Bad:
		glyph = t.Glyphs.Failed
	case present.Warn:
		glyph = t.Glyphs.Warn
	}
	return t.Level(said.Level).Render(widget.Cut(glyph+" "+text.Clean(said.Words), f.Width))
}
