package contexts

import (
	"strings"

	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow"
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
		head = append(head, t.Text.Render("The kubeconfig names no context."), t.Muted.Render("kubehsm join --ticket - makes the first one."))
	}
	if m.list.Len() == 0 {
		return widget.Block(strings.Join(head, "\n"), f.Width, f.Height)
	}
	m.list.Cells = func(c flow.ContextView) []widget.Cell { return m.cells(f, c) }
	body := widget.Split(t, f.Width, f.Height-len(head),
		func(w, h int) string { return m.list.View(t, w, h) },
		func(w int) []string { return m.details(f, w) })
	return strings.Join(append(head, body), "\n")
}

func (m *Model) cells(f screen.Frame, c flow.ContextView) []widget.Cell {
	t := f.Theme
	name, nameStyle := clean(c.Name), t.Text
	if c.Current {
		name, nameStyle = t.Glyphs.On+" "+name, t.Strong
	} else {
		name = "  " + name
	}
	kind, l := kindWords(c)
	ends := widget.Cell{Style: t.Muted}
	if e, ok := m.ends[c.Enrollment]; ok && c.Ours {
		ends = m.expiry(f, e)
	}
	return []widget.Cell{{Text: name, Style: nameStyle}, {Text: mark(t.Glyphs.Warn, l) + kind, Style: t.Level(l)}, ends, m.health(f, c), {Text: clean(server(c)), Style: t.Muted}}
}

// server is the API server, also where the context names the bridge to it.
func server(c flow.ContextView) string {
	if c.APIServer != "" {
		return c.APIServer
	}
	return c.Server
}

// bridge is the address that kubectl connects to, where that is another one.
func bridge(c flow.ContextView) string {
	if c.APIServer != "" && c.APIServer != c.Server {
		return c.Server
	}
	return ""
}

func mark(glyph string, l present.Level) string {
	if l >= present.Warn {
		return glyph + " "
	}
	return ""
}

// kindWords say how a context signs in, and how safe that is.
func kindWords(c flow.ContextView) (string, present.Level) {
	switch kubeconfig.UserKind(c.UserKind) {
	case kubeconfig.UserOurs:
		return "token", present.Good
	case kubeconfig.UserExternalSigner:
		return "token, patched", present.Good
	case kubeconfig.UserKeyFile:
		return "key in a file", present.Warn
	case kubeconfig.UserKeyData:
		return "key in here", present.Warn
	case kubeconfig.UserToken, kubeconfig.UserBasic:
		return "secret in here", present.Warn
	case kubeconfig.UserTokenFile:
		return "secret in file", present.Warn
	case kubeconfig.UserExec:
		return "program", present.Quiet
	case kubeconfig.UserMissing:
		return "user missing", present.Bad
	}
	return clean(c.UserKind), present.Quiet
}

func (m *Model) expiry(f screen.Frame, e flow.Expiring) widget.Cell {
	t := f.Theme
	switch rest := e.NotAfter.Sub(f.Now); {
	case e.Err != nil:
		return widget.Cell{Text: t.Glyphs.Warn + " unknown", Style: t.Warn}
	case rest <= 0:
		return widget.Cell{Text: t.Glyphs.Warn + " expired", Style: t.Bad}
	case e.Due:
		return widget.Cell{Text: t.Glyphs.Warn + " in " + present.Span(rest), Style: t.Warn}
	default:
		return widget.Cell{Text: "in " + present.Span(rest), Style: t.Good}
	}
}

func (m *Model) health(f screen.Frame, c flow.ContextView) widget.Cell {
	t, h := f.Theme, m.checks[c.Name]
	switch {
	case h == nil:
		return widget.Cell{Text: "-", Style: t.Faint}
	case !h.done:
		return widget.Cell{Text: "checking", Style: t.Accent}
	case h.err != nil:
		return widget.Cell{Text: t.Glyphs.Failed + " fails", Style: t.Bad}
	}
	return widget.Cell{Text: t.Glyphs.Done + " " + h.Took.String(), Style: t.Good}
}

func (m *Model) details(f screen.Frame, w int) []string {
	c, ok := m.list.Selected()
	if !ok {
		return nil
	}
	t := f.Theme
	lines := []string{t.Title.Render(widget.Cut(clean(c.Name), w))}
	if h := m.checks[c.Name]; h != nil {
		switch {
		case !h.done:
			lines = append(lines, widget.Working(t, "Signing in", h.job.Began, f.Now))
		case h.err != nil:
			lines = append(lines, widget.Failure(t, h.err, w)...)
		default:
			said := "Works"
			if h.User != "" {
				said += ": the cluster takes you for " + clean(h.User)
			}
			lines = append(lines, widget.Paragraph(t.Good, t.Glyphs.Done+" "+said, w)...)
		}
	}
	kind, _ := kindWords(c)
	facts := []present.Fact{{Name: "Cluster", Value: clean(c.Cluster + ", " + server(c))}, {Name: "User", Value: clean(c.User) + ", " + kind},
		{Name: "Enrolment", Value: clean(c.Enrollment)}, {Name: "Namespace", Value: clean(c.Namespace)}, {Name: "Bridge", Value: clean(bridge(c))}, {Name: "File", Value: clean(c.File)}}
	if e, ok := m.ends[c.Enrollment]; ok && c.Ours {
		end := present.Date(e.NotAfter)
		if e.Err != nil {
			end = ui.Message(e.Err)
		}
		facts = append(facts, present.Fact{Name: "Expires", Value: clean(end)})
	}
	return append(append(lines, widget.Facts(t, facts, w)...), "")
}
