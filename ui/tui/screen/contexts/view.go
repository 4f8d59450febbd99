package contexts

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t, s := f.Theme, m.Store.Contexts
	var head []string
	switch since, loading := s.Loading(); {
	case s.Err != nil:
		head = append(head, widget.Failure(t, s.Err, f.Width)...)
	case !s.Loaded && loading:
		head = append(head, widget.Working(t, "Reading the kubeconfig", since, f.Now))
	case s.Loaded && m.list.Len() == 0:
		head = append(head, t.Text.Render(present.NoContexts), t.Muted.Render("kubehsm join --ticket - makes the first one."))
	}
	if m.list.Len() == 0 {
		return widget.Block(strings.Join(head, "\n"), f.Width, f.Height)
	}
	m.list.Cells = func(c contexts.View) []widget.Cell { return m.cells(f, c) }
	body := widget.Split(t, f.Width, f.Height-len(head),
		func(w, h int) string { return m.list.View(t, w, h) },
		func(w int) []string { return m.details(f, w) })
	return strings.Join(append(head, body), "\n")
}

func (m *Model) cells(f screen.Frame, c contexts.View) []widget.Cell {
	t := f.Theme
	name, nameStyle := clean(c.Name), t.Text
	if c.Current {
		name, nameStyle = t.Glyphs.On+" "+name, t.Strong
	} else {
		name = "  " + name
	}
	kind, l := present.SignsInBy(c)
	ends := widget.Cell{Style: t.Muted}
	if e, ok := m.ends[c.Enrollment]; ok && c.Ours {
		end := present.Ending(e, f.Now)
		ends = widget.Cell{Text: t.Marked(end), Style: t.Level(end.Level)}
	}
	return []widget.Cell{{Text: name, Style: nameStyle},
		{Text: t.Marked(present.Fact{Value: kind, Level: l}), Style: t.Level(l)}, ends,
		{Text: present.Server(c), Style: t.Muted}}
}

func (m *Model) details(f screen.Frame, w int) []string {
	c, ok := m.list.Selected()
	if !ok {
		return nil
	}
	t := f.Theme
	lines := []string{t.Title.Render(widget.Cut(clean(c.Name), w))}
	var end *enroll.Expiring
	if e, ok := m.ends[c.Enrollment]; ok && c.Ours {
		end = &e
	}
	return append(append(lines, widget.Facts(t, present.ContextFacts(c, end, f.Now), w)...), "")
}
