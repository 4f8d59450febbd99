package tui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

type terminal struct {
	width, height int // 0 until they are known
	look          theme.Options
	theme         theme.Theme
	mouse         bool
}

func newTerminal(env []string) terminal {
	t := terminal{look: theme.Options{Profile: colorprofile.TrueColor, ASCII: theme.PlainCharset(env)}}
	t.mouse = lookup(env, "KUBEHSM_MOUSE") != "0"
	t.theme = theme.New(t.look)
	return t
}

// update reports whether msg describes the terminal.
func (t *terminal) update(msg tea.Msg) bool {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.width, t.height = msg.Width, msg.Height
		return true
	case tea.BackgroundColorMsg:
		t.look.Light = !msg.IsDark()
	case tea.ColorProfileMsg:
		t.look.Profile = msg.Profile
	default:
		return false
	}
	t.theme = theme.New(t.look)
	return true
}

// The smallest terminal that is drawn on, and from which size on there is room
// for margins and rules.
const (
	leastWidth, leastHeight = 40, 10
	roomyWidth, roomyHeight = 80, 20
)

// view returns an empty view and its canvas; ok is false while the terminal is too small or its
// size unknown.
func (t *terminal) view() (v tea.View, c canvas, ok bool) {
	v = tea.NewView("")
	v.AltScreen = true
	v.WindowTitle = "kubehsm"
	if t.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	switch {
	case t.width == 0 || t.height == 0:
		return v, canvas{}, false
	case t.width < leastWidth || t.height < leastHeight:
		v.Content = widget.Block(fmt.Sprintf("The terminal is too small:\n%d×%d, at least %d×%d.",
			t.width, t.height, leastWidth, leastHeight), t.width, t.height)
		return v, canvas{}, false
	}
	return v, newCanvas(t.theme, t.width, t.height), true
}
