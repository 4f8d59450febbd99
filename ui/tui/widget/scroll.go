package widget

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Scroll is a window on lines of rendered text.
type Scroll struct {
	top, total, height int
}

// Update moves the window. It tells whether the key was one of its own.
func (s *Scroll) Update(k tea.KeyPressMsg, m keys.Map) bool {
	switch {
	case key.Matches(k, m.Up):
		s.top--
	case key.Matches(k, m.Down):
		s.top++
	case key.Matches(k, m.PageUp):
		s.top -= max(s.height-1, 1)
	case key.Matches(k, m.PageDown), k.String() == "space":
		s.top += max(s.height-1, 1)
	case key.Matches(k, m.Home):
		s.top = 0
	case key.Matches(k, m.End):
		s.top = s.total
	default:
		return false
	}
	s.clamp()
	return true
}

func (s *Scroll) clamp() { s.top = max(min(s.top, s.total-s.height), 0) }

// Top goes back to the first line.
func (s *Scroll) Top() { s.top = 0 }

// View draws w columns and h lines of lines; where there are more the last
// line says so.
func (s *Scroll) View(t theme.Theme, lines []string, w, h int) string {
	s.total, s.height = len(lines), max(h, 1)
	if len(lines) <= h {
		s.top = 0
		return Block(strings.Join(lines, "\n"), w, h)
	}
	s.height = max(h-1, 1)
	s.clamp()
	end := min(s.top+s.height, len(lines))
	var where string
	switch below := len(lines) - end; {
	case below > 0:
		where = fmt.Sprintf("%s %s more", t.Glyphs.Down, Count(below, "line"))
	default:
		where = t.Glyphs.Up + " end"
	}
	return Block(strings.Join(lines[s.top:end], "\n"), w, s.height) + "\n" + Fit(t.Faint.Render(where), w)
}
