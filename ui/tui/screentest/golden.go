package screentest

import (
	"image/color"
	"reflect"
	"regexp"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// look is a frame that is kept: on which terminal it is drawn.
type look struct {
	name          string
	profile       colorprofile.Profile
	light         bool
	width, height int
}

// looks are each way of colours, and each size. The plain ones are kept of every frame, the
// others of one; all are drawn and measured.
func looks() []look {
	return []look{
		{"dark", colorprofile.TrueColor, false, 80, 24},
		{"light", colorprofile.TrueColor, true, 80, 24},
		{"16", colorprofile.ANSI, false, 80, 24},
		{"60x15", colorprofile.ASCII, false, 60, 15},
		{"100x30", colorprofile.ASCII, false, 100, 30},
		{"", colorprofile.ASCII, false, 200, 50},
	}
}

// Golden compares whole frames without colours, on terminals of several sizes, with the files of
// the test. go test -update writes them again.
func (r *Rig) Golden(t *testing.T) {
	t.Helper()
	r.golden(t, false)
}

// GoldenColours is Golden for a screen that has all colours.
func (r *Rig) GoldenColours(t *testing.T) {
	t.Helper()
	r.golden(t, true)
}

func (r *Rig) golden(t *testing.T, colours bool) {
	t.Helper()
	r.Until("the header says where the person stands", func() bool {
		return stands.MatchString(strings.Join(strings.SplitN(r.View(), "\n", 3)[:2], "\n"))
	})
	for _, l := range looks() {
		background := color.Color(color.Black)
		if l.light {
			background = color.White
		}
		r.Send(tea.BackgroundColorMsg{Color: background})
		r.Send(tea.ColorProfileMsg{Profile: l.profile})
		r.Send(tea.WindowSizeMsg{Width: l.width, Height: l.height})
		v := r.Frame()
		CheckFrame(t, v, l.width, l.height)
		checkColours(t, v.Content, l)
		if l.name != "" && (colours || l.profile == colorprofile.ASCII) {
			t.Run(l.name, func(t *testing.T) { golden.RequireEqual(t, Steady(v.Content)) })
		}
	}
	r.Send(tea.WindowSizeMsg{Width: 300, Height: 80})
	CheckFrame(t, r.Frame(), 300, 80)
}

// stands is what every header says once the overview was made.
var stands = regexp.MustCompile(`(?m)^─ \S`)

// checkColours wants every code of a frame to be one of the theme that it is drawn with, which
// has no colours where there are none.
func checkColours(t *testing.T, frame string, l look) {
	t.Helper()
	known := map[string]bool{"": true, "0": true}
	v := reflect.ValueOf(theme.New(theme.Options{Light: l.light, Profile: l.profile}))
	for i := range v.NumField() {
		if s, ok := v.Field(i).Interface().(theme.Style); ok {
			for _, s := range []theme.Style{s, s.Bold(), s.Underline()} {
				for _, code := range codes(s.Render("x")) {
					known[code] = true
				}
			}
		}
	}
	for _, code := range codes(frame) {
		if !known[code] {
			t.Errorf("%s: the theme has no %q", l.name, code)
		}
	}
}

// codes are the parameters of what sets the look of text.
func codes(s string) []string {
	var all []string
	for _, seq := range strings.Split(s, "\x1b[")[1:] {
		if code, _, ok := strings.Cut(seq, "m"); ok {
			all = append(all, code)
		}
	}
	return all
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
