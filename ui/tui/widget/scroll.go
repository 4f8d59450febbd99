package widget

import (
	"fmt"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Scroll is a window on lines of rendered text: bubbles' viewport, moved by the
// keys that move lists too.
type Scroll struct{ port viewport.Model }

// Update moves the window. It reports whether the key was one of its own.
func (s *Scroll) Update(k tea.KeyPressMsg, m keys.Map) bool {
	page := max(s.port.Height()-1, 1) // a line stays in view, to read on from
	switch {
	case key.Matches(k, m.Up):
		s.port.ScrollUp(1)
	case key.Matches(k, m.Down):
		s.port.ScrollDown(1)
	case key.Matches(k, m.PageUp):
		s.port.ScrollUp(page)
	case key.Matches(k, m.PageDown), k.String() == "space":
		s.port.ScrollDown(page)
	case key.Matches(k, m.Home):
		s.Top()
	case key.Matches(k, m.End):
		s.port.GotoBottom()
	default:
		return false
	}
	return true
}

// Top goes back to the first line.
func (s *Scroll) Top() { s.port.GotoTop() }

// AtTop reports whether the first line is in view.
func (s *Scroll) AtTop() bool { return s.port.AtTop() }

// View draws w columns and h lines of lines; where there are more the last
// line says so.
func (s *Scroll) View(t theme.Theme, lines []string, w, h int) string {
	fitted := make([]string, len(lines)) // the viewport would cut a line without a sign
	for i, l := range lines {
		fitted[i] = Fit(l, w)
	}
	more := len(lines) > h
	if more {
		h--
	}
	s.port.SetWidth(w)
	s.port.SetHeight(max(h, 1))
	s.port.SetContentLines(fitted)
	if !more {
		return s.port.View()
	}
	where := t.Glyphs.Up + " end"
	if below := len(lines) - s.port.YOffset() - s.port.Height(); below > 0 {
		where = fmt.Sprintf("%s %s more", t.Glyphs.Down, present.Count(below, "line"))
	}
	return s.port.View() + "\n" + Fit(t.Faint.Render(where), w)
}
