package tokens

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/slotview"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

const maxProblems = 2

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	if len(m.rows) == 0 {
		return m.viewEmpty(f)
	}
	return widget.Split(f.Theme, f.Width, f.Height,
		func(w, h int) string { return m.viewList(f.With(w, h)) },
		func(w int) []string { return m.details(f.Theme, w, f) })
}

func (m *Model) viewEmpty(f screen.Frame) string {
	t := f.Theme
	var lines []string
	since, loading := m.store.Tokens.Loading()
	switch {
	case m.filter.Active():
		lines = []string{m.filter.View(t, f.Width), "", t.Muted.Render("No token or slot matches.")}
	case !m.store.Tokens.Loaded && loading:
		lines = []string{"", widget.Working(t, "Looking for tokens", since, f.Now)}
	case m.store.Tokens.Err != nil:
		lines = append([]string{""}, widget.Failure(t, m.store.Tokens.Err, f.Width)...)
	case m.store.Tokens.Loaded:
		lines = []string{"", t.Title.Render(present.NoToken), ""}
		lines = append(lines, widget.Paragraph(t.Text, "Insert one: it shows up by itself. Security keys, smart cards "+
			"and PKCS#11 modules of p11-kit are found; others can be named with --module or in config.yaml.", min(f.Width,
			72))...)
	}
	lines = append(lines, m.problems(t, f.Width, true)...)
	return widget.Block(strings.Join(lines, "\n"), f.Width, f.Height)
}

func (m *Model) viewList(f screen.Frame) string {
	t := f.Theme
	var head []string
	if m.filter.Active() {
		head = append(head, m.filter.View(t, f.Width))
	}
	c := m.measure.For(f.Width)
	head = append(head, "  "+t.Faint.Render(c.Heading()))
	foot := m.problems(t, f.Width, false)
	if m.store.Tokens.Err != nil {
		foot = append(foot, widget.Failure(t, m.store.Tokens.Err, f.Width)...)
	}
	if max(f.Height-len(head)-len(foot), 0) < 3 {
		foot = nil
	}
	m.height = f.Height - len(head) - len(foot)
	// Only the lines in view are drawn: a token may hold a thousand keys.
	lines := m.lines
	if m.height <= 12 {
		lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.is == lineGap })
	}
	at := slices.IndexFunc(lines, func(l line) bool { return l.row == m.nav.Index && l.is == lineRow })
	from, to := m.nav.WindowAt(len(lines), m.height, at, at)
	drawn := make([]string, 0, m.height)
	for _, l := range lines[from:to] {
		switch r := m.rows[l.row]; l.is {
		case lineGap:
			drawn = append(drawn, "")
		case lineNote:
			drawn = append(drawn, "    "+t.Muted.Render(widget.Cut(note(r), f.Width-4)))
		default:
			drawn = append(drawn, widget.Row(l.row, m.line(f, c, l.row, r)))
		}
	}
	body := widget.Block(strings.Join(drawn, "\n"), f.Width, m.height)
	return strings.Join(append(append(head, body), foot...), "\n")
}

func note(r row) string {
	switch {
	case r.slot != nil:
		return ""
	case r.token.Err != nil:
		return ui.Message(r.token.Err)
	case len(r.token.Slots) == 0 && r.token.Info.Initialized:
		return "no keys yet"
	}
	return ""
}

func (m *Model) line(f screen.Frame, c slotview.Columns, i int, r row) string {
	t, sel := f.Theme, i == m.nav.Index
	lead := "  "
	if sel {
		lead = t.Accent.Render(t.Glyphs.Mark) + " "
	}
	if r.slot != nil {
		return lead + c.Slot(f, *r.slot, sel)
	}
	name := present.Token(r.token.Info)
	pin, pinLevel := present.PIN(r.token.Info, nil)
	room := f.Width - 2
	right := pin
	if pinLevel != present.Quiet {
		right = t.Glyphs.Warn + " " + pin
	}
	about := present.Kind(r.token.Info)
	if s := text.Clean(r.token.Info.Serial); s != "" && !strings.Contains(name, s) {
		about += " " + t.Glyphs.Dot + " " + s
	}
	left := room - widget.Width(right) - 2
	name = widget.Cut(name, left)
	about = widget.Cut(about, left-widget.Width(name)-3)
	gap := strings.Repeat(" ", max(left-widget.Width(name)-widget.Width(about)-2, 0)+2)
	if sel {
		return lead + t.Selected.Render(name+"  "+about+gap+right)
	}
	return lead + t.Title.Render(name) + "  " + t.Muted.Render(about) + gap + t.Level(pinLevel).Render(right)
}

func (m *Model) problems(t theme.Theme, w int, hints bool) []string {
	ps := present.Problems(m.store.Tokens.Value.Problems, len(m.store.Tokens.Value.Views) > 0)
	if len(ps) == 0 {
		return nil
	}
	lines := []string{""}
	for i, p := range ps {
		if i == maxProblems && len(ps) > maxProblems+1 {
			lines = append(lines, t.Faint.Render(fmt.Sprintf("  and %d more; `kubehsm token list` names them", len(ps)-i)))
			break
		}
		said := p.Name + ": " + p.Value
		if strings.HasPrefix(p.Name, "/") { // a library, whose folder is long
			said = strings.ReplaceAll(said, p.Name, path.Base(p.Name))
		}
		lines = append(lines, t.Warn.Render(t.Glyphs.Warn)+" "+t.Muted.Render(widget.Cut(said, w-2)))
		if hints && p.Note != "" {
			for _, l := range text.Wrap("hint: "+p.Note, w-2) {
				lines = append(lines, "  "+t.Faint.Render(l))
			}
		}
	}
	return lines
}
