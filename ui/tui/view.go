package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// The smallest terminal that is drawn on, and from which size on there is room
// for margins and rules.
const (
	leastWidth, leastHeight = 40, 10
	roomyWidth, roomyHeight = 80, 20
)

// View implements [tea.Model].
func (m *model) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	v.WindowTitle = "kubehsm"
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	switch {
	case m.width == 0 || m.height == 0: // the size is not known yet
	case m.width < leastWidth || m.height < leastHeight:
		v.Content = widget.Block(fmt.Sprintf("The terminal is too small:\n%d×%d, at least %d×%d.",
			m.width, m.height, leastWidth, leastHeight), m.width, m.height)
	default:
		m.draw(&v)
	}
	return v
}

func (m *model) draw(v *tea.View) {
	w, margin := m.width, 1
	if w >= roomyWidth {
		margin = 2
	}
	rules := 0
	if m.height >= roomyHeight {
		rules = 1
	}
	f := screen.Frame{Width: w, Height: m.height, Theme: m.theme, Now: m.now}
	bodyHeight := m.height - 2 - 2*rules
	body := widget.Block(m.top().View(f.With(w-2*margin, bodyHeight)), w-2*margin, bodyHeight)
	pad := strings.Repeat(" ", margin)
	lines := []string{pad + widget.Fit(m.header(w-2*margin), w-2*margin) + pad}
	rule := m.theme.Faint.Render(strings.Repeat(m.theme.Glyphs.Rule, w))
	if rules > 0 {
		lines = append(lines, rule)
	}
	for _, l := range strings.Split(body, "\n") {
		lines = append(lines, pad+l+pad)
	}
	if rules > 0 {
		lines = append(lines, rule)
	}
	lines = append(lines, pad+widget.Fit(m.footer(w-2*margin), w-2*margin)+pad)
	content := strings.Join(lines, "\n")
	content, x, y, typing := widget.TakeCursor(content)
	content = m.drawToasts(content, rules, margin)
	if n := len(m.dialogs); n > 0 && !quiet(m.dialogs[n-1].dialog, m.now) {
		content, x, y, typing = m.drawDialog(content, m.dialogs[n-1].dialog, f)
	}
	v.Content = content
	if typing {
		v.Cursor = tea.NewCursor(x, y)
		v.Cursor.Shape = tea.CursorBar
	}
}

// header draws the way to this screen and what goes on in the background.
func (m *model) header(w int) string {
	t := m.theme
	right := ""
	if m.readOnly {
		right = t.Warn.Render("read-only")
	}
	if m.store.Building() && m.store.Cluster.Loaded {
		right = t.Warn.Render(t.Glyphs.Dot + " " + clusterPhase(m.store.Cluster.Value.Phase))
		if p := m.store.Cluster.Value; p.Total > 0 {
			right += t.Muted.Render(fmt.Sprintf(" %d%%", min(100*p.Done/p.Total, 100)))
		}
	} else if m.store.Cluster.Value.Failed() {
		right = t.Bad.Render(t.Glyphs.Failed + " cluster failed")
	}
	left := t.Brand.Render("kubehsm") + "  "
	if right == "" {
		return left + m.place(w-widget.Width(left))
	}
	left += m.place(w - widget.Width(left) - widget.Width(right) - 2)
	if room := w - widget.Width(left) - widget.Width(right); room > 1 {
		return left + strings.Repeat(" ", room) + right
	}
	return left
}

// place draws where we are: the screens of the top level, or the way to one
// below them.
func (m *model) place(w int) string {
	t, stack := m.theme, m.here().stack
	if len(stack) == 1 {
		var tabs []string
		for i, s := range m.sections {
			number := t.Faint.Render(strconv.Itoa(i + 1))
			switch i {
			case m.at:
				tabs = append(tabs, t.Accent.Render(strconv.Itoa(i+1))+" "+t.Title.Underline().Render(s.title))
			default:
				tabs = append(tabs, number+" "+t.Muted.Render(s.title))
			}
		}
		if line := strings.Join(tabs, "  "); widget.Width(line) <= w {
			return line
		}
	}
	line := ""
	for i, s := range stack {
		if i == len(stack)-1 {
			return line + t.Title.Render(s.Title())
		}
		line += t.Muted.Render(s.Title()) + " " + t.Faint.Render(t.Glyphs.Sep+" ")
	}
	return line
}

func clusterPhase(phase string) string {
	switch phase {
	case "building":
		return "building the cluster"
	case "starting", "":
		return "starting the cluster"
	}
	return "cluster: " + text.Clean(phase)
}

// footer draws the keys that are most useful now, as many as fit; help is
// always among them unless letters are text.
func (m *model) footer(w int) string {
	last := []screen.Action{{Key: m.keys.Palette}, {Key: m.keys.Help}, {Key: m.keys.Quit}}
	if m.width < roomyWidth {
		last = last[1:]
	}
	if m.top().Typing() {
		last = []screen.Action{{Key: m.keys.Leave}}
	}
	sep := "   "
	if m.width < roomyWidth {
		sep = "  "
	}
	tail := m.hints(last, sep)
	line := ""
	for _, a := range m.actions() {
		if a.Quiet {
			continue
		}
		hint := m.hints([]screen.Action{a}, sep) + sep
		if widget.Width(line)+widget.Width(hint)+widget.Width(tail) > w {
			break
		}
		line += hint
	}
	return line + tail
}

func (m *model) hints(actions []screen.Action, sep string) string {
	var parts []string
	for _, a := range actions {
		h := a.Key.Help()
		if a.Reason != "" {
			parts = append(parts, m.theme.Faint.Render(h.Key+" "+h.Desc))
			continue
		}
		parts = append(parts, m.theme.Accent.Render(h.Key)+" "+m.theme.Muted.Render(h.Desc))
	}
	return strings.Join(parts, sep)
}

func (m *model) drawToasts(content string, rules, margin int) string {
	y := m.height - 1 - rules - len(m.toasts)
	for i, to := range m.toasts {
		st, glyph := m.theme.Good, m.theme.Glyphs.Done
		if to.warn {
			st, glyph = m.theme.Warn, m.theme.Glyphs.Warn
		}
		line := " " + st.Render(glyph) + " " + m.theme.Strong.Render(widget.Cut(text.Clean(to.text), m.width-2*margin-6)) + " "
		content = widget.Overlay(content, line, m.width-margin-widget.Width(line), y+i)
	}
	return content
}

// quiet tells whether a dialog does not want to be seen yet.
func quiet(d dialog.Dialog, now time.Time) bool {
	q, ok := d.(interface{ Quiet(time.Time) bool })
	return ok && q.Quiet(now)
}

// drawDialog draws d in the middle of the dimmed screen.
func (m *model) drawDialog(content string, d dialog.Dialog, f screen.Frame) (string, int, int, bool) {
	like := 64
	if s, ok := d.(interface{ Width() int }); ok {
		like = s.Width()
	}
	w := min(like, m.width-6)
	h := m.height - 6
	inner := strings.TrimRight(d.View(f.With(w, h)), "\n")
	lines := strings.Split(inner, "\n")
	if len(lines) > h {
		lines = lines[:h]
	}
	lines = append(lines, "", m.hints(d.Actions(), "   "))
	line := m.theme.Accent
	if d.Tone() == dialog.Caution {
		line = m.theme.Warn
	}
	box := widget.Box(m.theme, line, d.Title(), strings.Join(lines, "\n"), w)
	box, cx, cy, typing := widget.TakeCursor(box)
	x, y := (m.width-w-4)/2, max((m.height-strings.Count(box, "\n")-1)/2, 0)
	return widget.Overlay(widget.Dim(m.theme, content), box, x, y), x + cx, y + cy, typing
}
