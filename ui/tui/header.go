package tui

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// headerParts are the notices of every header, the most important first: the last ones are cut off
// first.
func headerParts(t theme.Theme, m *model) []string {
	var parts []string
	add := func(p string) {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if m.readOnly {
		add(t.Warn.Render("read-only"))
	}
	add(waitStatus(t, m.waiting.latest()))
	if r := m.store.Running; r != nil && m.nav.top().ID() != screen.Enroll {
		add(runningStatus(t, *r))
	}
	add(otherStatus(t, m.store.Overview))
	return parts
}

func standing(t theme.Theme, s overview.Status, now time.Time, room int) string {
	if s.Context == "" {
		return t.Muted.Render("no context")
	}
	glyph := t.Glyphs.Off
	switch s.Lock {
	case overview.Unlocked:
		glyph = t.Glyphs.On
	case overview.Unknown, overview.Absent:
		glyph = "?"
	case "":
		glyph = t.Glyphs.Dot
	}
	state := glyph + " " + present.LockBrief(s, now)
	style := t.Level(present.LockLevel(s))
	name := widget.Cut(present.ContextWords(s), max(room-widget.Width(state)-1, 4))
	return t.Strong.Render(name) + " " + style.Render(state)
}

func otherStatus(t theme.Theme, o store.Data[overview.Status]) string {
	if o.Value.Interfaces < 2 {
		return ""
	}
	return t.Warn.Render(t.Glyphs.Warn + " another kubehsm is open")
}

func waitStatus(t theme.Theme, words string) string {
	if words == "" {
		return ""
	}
	return t.Warn.Render(t.Glyphs.Warn + " " + text.Clean(words))
}

func (c canvas) header(n *navigation, stands func(room int) string, parts []string) string {
	brand := c.theme.Brand.Render("kubehsm") + "  "
	if c.rules > 0 {
		room := c.inner() - widget.Width(brand)
		if tabs := n.tabs(c.theme, c.inner()); tabs != "" && widget.Width(tabs) > room {
			return tabs
		}
		return brand + n.view(c.theme, room)
	}
	left, right := brand+n.view(c.theme, 0), stands(c.inner()/2)
	if len(parts) > 0 { // work under way is worth more than the program's name
		left = n.view(c.theme, 0)
		if room := c.inner() - widget.Width(left) - widget.Width(right) - 4; room >= 8 {
			right = widget.Cut(parts[0], room) + "  " + right
		}
	}
	left = widget.Cut(left, c.inner()-widget.Width(right)-1)
	return left + strings.Repeat(" ", max(c.inner()-widget.Width(left)-widget.Width(right), 0)) + right
}

func (c canvas) rule(stands func(room int) string, parts []string) string {
	line := func(n int) string { return c.theme.Faint.Render(strings.Repeat(c.theme.Glyphs.Rule, max(n, 0))) }
	left := line(c.margin)
	if s := stands(c.inner() / 2); s != "" {
		left = line(c.margin-1) + " " + s + " "
	}
	right := ""
	for _, p := range parts {
		room := c.width - widget.Width(left) - widget.Width(right) - c.margin - 4
		if right == "" {
			p = widget.Cut(p, room)
		}
		if widget.Width(p)+2 > room {
			break
		}
		if right != "" {
			right += line(2)
		}
		right += " " + p + " "
	}
	return left + line(c.width-widget.Width(left)-widget.Width(right)-c.margin+1) + right + line(c.margin-1)
}
