package widget

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// FuzzWidth holds the quick way to a width to the general one, wherever it takes
// a text for simple.
func FuzzWidth(f *testing.F) {
	for _, s := range []string{"abc", "\x1b[1;38;2;1;2;3mabc\x1b[m", "✓ 3 keys", "✓\ufe0f", "e\u0301", "鍵",
		"a\x1b]0;t\x07b", "\x1b[3Ja", "▌─│…•‹›↑↓↺●○✗⠋█░", "\x1b[", "\x1bm", "\x1b[mm",
		"─\u200d─", "\xe2\x80", "👩‍💻 a", "\x9b1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := simpleWidth(s); ok && n != ansi.StringWidth(s) {
			t.Errorf("%q is %d wide, not %d", s, ansi.StringWidth(s), n)
		}
	})
}

// TestGlyphsAreSimple: what the theme draws with is measured quickly, and is a column each.
func TestGlyphsAreSimple(t *testing.T) {
	g := plain().Glyphs
	all := append([]string{g.Mark, g.Done, g.Failed, g.Pending, g.Reused, g.Warn, g.Dot, g.On, g.Off, g.Full, g.Empty,
		g.Bullet, g.Rule, g.Bar, g.More, g.Up, g.Down, g.Sep, g.Left, g.Right,
		g.Border.TopLeft, g.Border.Top, g.Border.Left, g.Border.BottomRight}, g.Spinner...)
	for _, s := range all {
		if n := ansi.StringWidth(s); n != 1 {
			t.Errorf("%q is %d columns wide", s, n)
		}
	}
	if _, ok := simpleWidth(strings.ReplaceAll(strings.Join(all, ""), g.Pending, "")); !ok {
		t.Errorf("one of %q is not measured quickly", all)
	}
}
