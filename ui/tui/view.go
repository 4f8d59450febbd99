package tui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [tea.Model].
func (m *model) View() tea.View {
	v, c, ok := m.terminal.view()
	if !ok {
		return v
	}
	frame := screen.Frame{Width: c.width, Height: c.height, Theme: c.theme, Now: m.now}
	stands := func(room int) string {
		if !m.store.Overview.Loaded {
			return ""
		}
		s := m.store.Overview.Value
		if m.nav.top().Watching() > 0 { // the tokens were read a moment ago
			s = m.store.Status()
		}
		return standing(c.theme, s, m.now, room)
	}
	parts := headerParts(c.theme, m)
	body := widget.Block(m.nav.top().View(frame.With(c.inner(), c.body())), c.inner(), c.body())
	content := c.page(c.header(&m.nav, stands, parts), c.rule(stands, parts), body, c.footer(m.actions(), m.lastKeys(c)))
	content, x, y, typing := widget.TakeCursor(content)
	content, m.pointer.zones = widget.TakeZones(content)
	content = c.drawToasts(content, m.toasts)
	if m.dialogs.any() && !quiet(m.dialogs.top(), m.now) {
		content, x, y, typing = c.drawDialog(content, m.dialogs.top(), frame)
		content, m.pointer.zones = widget.TakeZones(content)
	}
	v.Content = content
	if typing {
		v.Cursor = tea.NewCursor(x, y)
		v.Cursor.Shape = tea.CursorBar
	}
	return v
}

// lastKeys end every footer. Help is among them unless letters are text.
func (m *model) lastKeys(c canvas) []screen.Action {
	switch {
	case m.nav.top().Typing():
		return []screen.Action{{Key: m.keys.Leave}}
	case c.roomy():
		return []screen.Action{{Key: m.keys.Palette}, {Key: m.keys.Help}, {Key: m.keys.Quit}}
	}
	return []screen.Action{{Key: m.keys.Help}, {Key: m.keys.Quit}}
}

func runningStatus(t theme.Theme, r store.Running) string {
	name := text.Clean(r.Name)
	switch {
	case r.Ended && r.Err == nil:
		return t.Good.Render(t.Glyphs.Done + " " + name + " is enrolled")
	case r.Ended:
		return t.Bad.Render(t.Glyphs.Failed + " " + name + " is not enrolled")
	case r.Step == "":
		return t.Warn.Render(t.Glyphs.On + " " + name)
	}
	return t.Warn.Render(t.Glyphs.On+" "+name) + t.Muted.Render(": "+r.Step.Title())
}

func quiet(d dialog.Dialog, now time.Time) bool {
	q, ok := d.(interface{ Quiet(time.Time) bool })
	return ok && q.Quiet(now)
}

type canvas struct {
	theme         theme.Theme
	width, height int
	margin, rules int
}

func newCanvas(t theme.Theme, w, h int) canvas {
	c := canvas{theme: t, width: w, height: h, margin: 1}
	if c.roomy() {
		c.margin = 2
	}
	if h >= roomyHeight {
		c.rules = 1
	}
	return c
}

func (c canvas) roomy() bool { return c.width >= roomyWidth }

func (c canvas) inner() int { return c.width - 2*c.margin }

func (c canvas) body() int { return c.height - 2 - 2*c.rules }

func (c canvas) page(header, below, body, footer string) string {
	pad := strings.Repeat(" ", c.margin)
	lines := []string{pad + widget.Fit(header, c.inner()) + pad}
	if c.rules > 0 {
		lines = append(lines, below)
	}
	for _, l := range strings.Split(body, "\n") {
		lines = append(lines, pad+l+pad)
	}
	if c.rules > 0 {
		lines = append(lines, c.theme.Faint.Render(strings.Repeat(c.theme.Glyphs.Rule, c.width)))
	}
	return strings.Join(append(lines, pad+widget.Fit(footer, c.inner())+pad), "\n")
}

// footer draws as many keys as fit before the last ones, the most useful first. Keys that do
// nothing now are only in the help, with the reason.
func (c canvas) footer(actions, last []screen.Action) string {
	sep := "  "
	if c.roomy() {
		sep = "   "
	}
	tail := c.hints(last, sep)
	line := ""
	for _, a := range actions {
		if a.Quiet || a.Reason != "" {
			continue
		}
		hint := c.hints([]screen.Action{a}, sep) + sep
		if widget.Width(line)+widget.Width(hint)+widget.Width(tail) > c.inner() {
			break
		}
		line += hint
	}
	return line + tail
}

func (c canvas) fitting(actions []screen.Action, sep string, w int) []screen.Action {
	for len(actions) > 1 && widget.Width(c.hints(actions, sep)) > w {
		actions = actions[:len(actions)-1]
	}
	return actions
}

// hints draws keys and their effect. The help of bubbles leaves out disabled keys; here they are
// grey, because pressing one shows the reason.
func (c canvas) hints(actions []screen.Action, sep string) string {
	var parts []string
	for _, a := range actions {
		h := a.Key.Help()
		if a.Reason != "" {
			parts = append(parts, c.theme.Faint.Render(h.Key+" "+h.Desc))
			continue
		}
		hint := c.theme.Accent.Render(h.Key) + " " + c.theme.Muted.Render(h.Desc)
		if names := a.Key.Keys(); len(names) > 0 {
			hint = widget.Click(widget.ZoneKey+names[0], hint)
		}
		parts = append(parts, hint)
	}
	return strings.Join(parts, sep)
}

func (c canvas) drawToasts(content string, all toasts) string {
	y := c.height - 1 - c.rules - len(all)
	for i, to := range all {
		st, glyph := c.theme.Good, c.theme.Glyphs.Done
		if to.Warn {
			st, glyph = c.theme.Warn, c.theme.Glyphs.Warn
		}
		line := " " + st.Render(glyph) + " " + c.theme.Strong.Render(widget.Cut(text.Clean(to.Text), c.inner()-6)) + " "
		content = widget.Overlay(content, line, c.width-c.margin-widget.Width(line), y+i)
	}
	return content
}

func (c canvas) drawDialog(content string, d dialog.Dialog, f screen.Frame) (string, int, int, bool) {
	like := 64
	if s, ok := d.(interface{ Width() int }); ok {
		like = s.Width()
	}
	w := min(like, c.width-6)
	tight := c.height < roomyHeight // the dialog may take the whole height then
	h := c.height - 6
	if tight {
		h = c.height - 3 // two borders, and the keys
	}
	inner := strings.TrimRight(d.View(f.With(w, h)), "\n")
	lines := strings.Split(inner, "\n")
	if len(lines) > h {
		lines = lines[:h]
	}
	if !tight || len(lines) < h {
		lines = append(lines, "")
	}
	lines = append(lines, c.hints(c.fitting(d.Actions(), "   ", w), "   "))
	line := c.theme.Accent
	if d.Tone() == dialog.Caution {
		line = c.theme.Warn
	}
	box := widget.Box(c.theme, line, d.Title(), strings.Join(lines, "\n"), w)
	box, cx, cy, typing := widget.TakeCursor(box)
	x, y := (c.width-w-4)/2, max((c.height-strings.Count(box, "\n")-1)/2, 0)
	return widget.Overlay(widget.Dim(c.theme, content), box, x, y), x + cx, y + cy, typing
}
