package widget

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

func plain() theme.Theme { return theme.New(theme.Options{Profile: colorprofile.ASCII}) }

func press(s string) tea.KeyPressMsg {
	switch s {
	case "left":
		return tea.KeyPressMsg{Code: tea.KeyLeft}
	case "right":
		return tea.KeyPressMsg{Code: tea.KeyRight}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	case "delete":
		return tea.KeyPressMsg{Code: tea.KeyDelete}
	case "tab":
		return tea.KeyPressMsg{Code: tea.KeyTab}
	case "down":
		return tea.KeyPressMsg{Code: tea.KeyDown}
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case "up":
		return tea.KeyPressMsg{Code: tea.KeyUp}
	case "pgdown":
		return tea.KeyPressMsg{Code: tea.KeyPgDown}
	case "end":
		return tea.KeyPressMsg{Code: tea.KeyEnd}
	case "home":
		return tea.KeyPressMsg{Code: tea.KeyHome}
	case "ctrl+w", "ctrl+u", "ctrl+a", "ctrl+k":
		return tea.KeyPressMsg{Code: rune(s[5]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(s)[0], Text: s}
}

func TestInput(t *testing.T) {
	for _, c := range []struct {
		start string
		keys  []string
		want  string
	}{
		{"", []string{"a", "b"}, "ab"},
		{"ab", []string{"left", "x"}, "axb"},
		{"a👩‍👧b", []string{"left", "backspace"}, "ab"}, // a grapheme of several runes
		{"é日本", []string{"backspace"}, "é日"},
		{"日本", []string{"ctrl+a", "delete"}, "本"},
		{"one two  ", []string{"ctrl+w"}, "one "},
		{"one two", []string{"left", "left", "ctrl+u"}, "wo"},
		{"one two", []string{"left", "left", "ctrl+k"}, "one t"},
		{"", []string{"backspace", "delete", "left", "right"}, ""},
		{"", []string{"e", "\u0301", "backspace"}, ""},
	} {
		in := NewInput(c.start, "")
		for _, k := range c.keys {
			in.Update(press(k))
		}
		if got := in.Value(); got != c.want {
			t.Errorf("%q %v: %q, want %q", c.start, c.keys, got, c.want)
		}
	}
}

func TestInputPaste(t *testing.T) {
	in := NewInput("", "")
	in.Update(tea.PasteMsg{Content: " jane\x1b[31m\nsmith\x07 "})
	if got := in.Value(); got != "jane[31m smith" {
		t.Errorf("got %q", got)
	}
	in.Update(tea.PasteMsg{Content: strings.Repeat("x", maxInput)})
	if n := len(in.Value()); n > maxInput {
		t.Errorf("%d characters", n)
	}
}

// TestInputCursor: the real cursor is where the next character goes, and stays
// in view in a narrow field.
func TestInputCursor(t *testing.T) {
	in := NewInput("日本語テキスト", "")
	for w := 2; w < 20; w++ {
		clean, x, y, ok := TakeCursor(in.View(plain(), w, true))
		if !ok || y != 0 || x != Width(clean) || x >= w {
			t.Errorf("width %d: cursor at %d,%d of %q", w, x, y, clean)
		}
	}
	in.Update(press("ctrl+a"))
	if _, x, _, ok := TakeCursor(in.View(plain(), 10, true)); !ok || x != 0 {
		t.Errorf("at the start: %d", x)
	}
	if strings.Contains(in.View(plain(), 10, false), mark) {
		t.Error("a cursor without the focus")
	}
}

func TestNav(t *testing.T) {
	m := keys.Default()
	for _, c := range []struct {
		n, height int
		keys      []string
		want      int
		from, to  int
	}{
		{10, 4, []string{"down", "down"}, 2, 0, 4},
		{10, 4, []string{"down", "down", "down", "down"}, 4, 1, 5},
		{10, 4, []string{"end"}, 9, 6, 10},
		{10, 4, []string{"end", "up"}, 8, 6, 10},
		{10, 4, []string{"end", "home"}, 0, 0, 4},
		{10, 4, []string{"pgdown", "pgdown"}, 6, 3, 7},
		{10, 4, []string{"up"}, 0, 0, 4},
		{2, 4, []string{"down", "down", "down"}, 1, 0, 2},
		{0, 4, []string{"down"}, 0, 0, 0},
	} {
		var v Nav
		for _, k := range c.keys {
			v.Update(press(k), m, c.n, c.height)
			v.Window(c.n, c.height)
		}
		from, to := v.Window(c.n, c.height)
		if v.Index != c.want || from != c.from || to != c.to {
			t.Errorf("%d rows, %v: at %d, [%d,%d), want %d, [%d,%d)", c.n, c.keys, v.Index, from, to, c.want, c.from, c.to)
		}
	}
}

// TestScroll: pages overlap by a line, the last line says how much is below, and
// text that becomes shorter does not leave the window empty.
func TestScroll(t *testing.T) {
	m := keys.Default()
	var lines []string
	for i := range 10 {
		lines = append(lines, strings.Repeat(string(rune('a'+i)), 30))
	}
	for _, c := range []struct {
		keys        []string
		first, last string
	}{
		{nil, "aaaa…", "↓ 6 …"},
		{[]string{"down"}, "bbbb…", "↓ 5 …"},
		{[]string{"pgdown"}, "dddd…", "↓ 3 …"},
		{[]string{"pgdown", "space", "pgdown"}, "gggg…", "↑ end"},
		{[]string{"end", "up"}, "ffff…", "↓ 1 …"},
		{[]string{"end", "home", "up"}, "aaaa…", "↓ 6 …"},
	} {
		var s Scroll
		s.View(plain(), lines, 5, 5)
		for _, k := range c.keys {
			if !s.Update(press(k), m) {
				t.Errorf("%s is not its own", k)
			}
			s.View(plain(), lines, 5, 5)
		}
		got := strings.Split(ansi.Strip(s.View(plain(), lines, 5, 5)), "\n")
		if len(got) != 5 || got[0] != c.first || got[4] != c.last {
			t.Errorf("%v: %q", c.keys, got)
		}
	}
	var s Scroll
	s.View(plain(), lines, 5, 5)
	if s.Update(press("x"), m) {
		t.Error("x is its own")
	}
	s.Update(press("end"), m)
	for _, c := range []struct {
		lines  []string
		height int
		want   string
	}{{lines[:6], 5, "cccc…\ndddd…\neeee…\nffff…\n↑ end"}, {lines[:2], 3, "aaaa…\nbbbb…\n     "}, {nil, 1, "     "}} {
		if got := ansi.Strip(s.View(plain(), c.lines, 5, c.height)); got != c.want {
			t.Errorf("%d lines: %q, want %q", len(c.lines), got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, s := range []string{"", "abc", "日本語テキスト", "👩‍👧👩‍👧👩‍👧", "\x1b[1mbold and long\x1b[m"} {
		for w := range 9 {
			if got := Width(Fit(s, w)); got != w {
				t.Errorf("Fit(%q, %d) has %d columns", s, w, got)
			}
		}
	}
}

// TestOverlay: what lies over wide characters leaves no half of them.
func TestOverlay(t *testing.T) {
	base := strings.Repeat("日本語日本語\n", 3) + "日本語日本語"
	for x := range 8 {
		got := Overlay(base, "ab\ncd", x, 1)
		for i, l := range strings.Split(got, "\n") {
			if Width(l) != 12 {
				t.Errorf("x %d: line %d has %d columns: %q", x, i, Width(l), l)
			}
		}
		if !strings.Contains(got, "ab") || !strings.Contains(got, "cd") {
			t.Errorf("x %d: %q", x, got)
		}
	}
	// A skin tone joins the blank before it, or stands alone: as wide as either, depending on who measures.
	modifier := strings.Repeat(" ", 11) + "\U0001f3fd" + strings.Repeat("鍵", 9) + strings.Repeat(" ", 7)
	if got, want := Width(Overlay(modifier, strings.Repeat("x", 24), 6, 0)), Width(modifier); got != want {
		t.Errorf("over a skin tone: %d columns, not %d", got, want)
	}
	if got := Overlay("aa\nbb", "x", 0, 9); got != "aa\nbb" {
		t.Errorf("outside: %q", got)
	}
}

func TestForm(t *testing.T) {
	m := keys.Default()
	f := Form{Fields: []*Field{
		{ID: "a", Label: "A", Options: []Option{{Label: "one"}, {Label: "two", Reason: "not here"}, {Label: "three"}}},
		{ID: "b", Label: "B", Input: NewInput("", "nothing")},
	}}
	f.Update(press("down"), m)
	if i := f.Field("a").Index; i != 2 {
		t.Errorf("chose %d: an option with a reason is skipped", i)
	}
	f.Update(press("down"), m)
	if i := f.Field("a").Index; i != 2 || f.Focus != 0 {
		t.Errorf("moved on to %d, focus %d", i, f.Focus)
	}
	if f.Typing() {
		t.Error("typing in a choice")
	}
	f.Update(press("tab"), m)
	f.Update(press("j"), m)
	if !f.Typing() || f.Field("b").Input.Value() != "j" {
		t.Error("j is text in a text field")
	}
	f.Field("a").Problem = "no"
	if !f.FirstProblem() || f.Focus != 0 {
		t.Error("the focus goes to the problem")
	}
	for h := 1; h < 12; h++ {
		if n := strings.Count(f.View(plain(), 40, h), "\n") + 1; n != h {
			t.Errorf("%d lines for height %d", n, h)
		}
	}
}

func TestFilter(t *testing.T) {
	var f Filter
	f.Open()
	for _, k := range []string{"q", "?", "backspace"} {
		f.Update(press(k))
	}
	if !f.Typing() || !f.Match("Quite") || f.Match("other") {
		t.Error("one letter left to match")
	}
	f.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	if f.Typing() || !f.Active() {
		t.Error("enter keeps the filter")
	}
	f.Open()
	f.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	if f.Active() {
		t.Error("esc drops it")
	}
}

// TestCalm: short work shows no spinner, long work shows how long it takes.
func TestCalm(t *testing.T) {
	at := time.Unix(0, 0)
	if s := Working(plain(), "reading", at, at.Add(SpinnerDelay-1)); s != "" {
		t.Errorf("early: %q", s)
	}
	if s := Working(plain(), "reading", at, at.Add(time.Second)); !strings.Contains(s, "reading") ||
		strings.Contains(s, " s") {
		t.Errorf("after a second: %q", s)
	}
	if s := Working(plain(), "reading", at, at.Add(4*time.Second)); !strings.Contains(s, "4 s") {
		t.Errorf("after four: %q", s)
	}
}

func TestDiffIsCleaned(t *testing.T) {
	lines := Diff(plain(), "--- a\n+++ b\n@@ -1 +1 @@\n-x\x1b[2J\n+y\n z\n", 40)
	if len(lines) != 6 || strings.Contains(strings.Join(lines, ""), "\x1b[2J") {
		t.Errorf("%q", lines)
	}
}

func TestPlainCharset(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{nil, false}, {[]string{"LANG=en_US.UTF-8"}, false}, {[]string{"LANG=C.utf8"}, false}, {[]string{"LANG=C"}, true},
		{[]string{"LANG=en_US.UTF-8", "LC_ALL=POSIX"}, true}, {[]string{"LANG=C", "LC_ALL="}, true}, {[]string{"LANG=C", "LC_CTYPE=C.UTF-8"}, false},
	} {
		if got := theme.PlainCharset(c.env); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}
