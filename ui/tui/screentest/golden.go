package screentest

import (
	"fmt"
	"image/color"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Golden compares whole frames, in colours and without, on terminals of several
// sizes, with the files of the test. go test -update writes them anew.
func (r *Rig) Golden(t *testing.T) {
	t.Helper()
	frame := func(name string, w, h int) {
		t.Helper()
		r.Send(tea.WindowSizeMsg{Width: w, Height: h})
		v := r.Frame()
		CheckFrame(t, v, w, h)
		t.Run(name, func(t *testing.T) { golden.RequireEqual(t, Steady(v.Content)) })
	}
	frame("dark", 80, 24)
	r.Send(tea.BackgroundColorMsg{Color: color.White})
	frame("light", 80, 24)
	r.Send(tea.ColorProfileMsg{Profile: colorprofile.ASCII})
	for _, size := range [][2]int{{80, 24}, {100, 30}, {60, 15}, {200, 50}} {
		frame(fmt.Sprintf("no-color-%dx%d", size[0], size[1]), size[0], size[1])
	}
	r.Send(tea.WindowSizeMsg{Width: 300, Height: 80})
	CheckFrame(t, r.Frame(), 300, 80)
}

// CheckFrame fails the test unless the frame has exactly as many lines as the terminal, each
// exactly as wide as that, and the cursor inside.
func CheckFrame(t testing.TB, v tea.View, w, h int) {
	t.Helper()
	lines := strings.Split(v.Content, "\n")
	if len(lines) != h {
		t.Errorf("%dx%d: %d lines", w, h, len(lines))
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n != w {
			t.Errorf("%dx%d: line %d is %d columns wide: %q", w, h, i, n, l)
		}
	}
	if c := v.Cursor; c != nil && (c.X < 0 || c.X >= w || c.Y < 0 || c.Y >= h) {
		t.Errorf("%dx%d: the cursor is at %d,%d", w, h, c.X, c.Y)
	}
	if strings.Contains(v.Content, widget.CursorMark()) {
		t.Errorf("%dx%d: a cursor mark is left", w, h)
	}
}
