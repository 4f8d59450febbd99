package widget

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Width is the number of columns of one line of rendered text.
func Width(s string) int {
	if n, ok := simpleWidth(s); ok {
		return n
	}
	return ansi.StringWidth(s)
}

// simpleWidth counts printable ASCII, the theme's glyphs and colours, which fill most of a frame.
// The general way takes ten times as long, and a frame measures thousands of texts.
func simpleWidth(s string) (n int, ok bool) {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c >= ' ' && c <= '~':
			i++
			n++
		case c == '\x1b':
			if i++; i == len(s) || s[i] != '[' {
				return 0, false
			}
			for i++; i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == ';'); i++ {
			}
			if i == len(s) || s[i] != 'm' {
				return 0, false
			}
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if !glyph(r) {
				return 0, false
			}
			i += size
			n++
		}
	}
	return n, true
}

func glyph(r rune) bool {
	switch r {
	case '…', '•', '‹', '›', '↑', '↓', '↺', '●', '○', '✓', '✗':
		return true
	}
	return r >= '─' && r <= '╿' || r >= '▀' && r <= '▟' || r >= '⠁' && r <= '⣿'
}

// Fit cuts rendered text to w columns, marking a cut, and pads it to exactly w.
func Fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	n := Width(s)
	if n > w {
		s = ansi.Truncate(s, w, "…")
		n = Width(s)
	}
	if n < w {
		s += strings.Repeat(" ", w-n)
	}
	return s
}

// Cut cuts rendered text to at most w columns, marking a cut.
func Cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if Width(s) <= w {
		return s
	}
	return ansi.Truncate(s, w, "…")
}

// Paragraph wraps plain text to w columns and gives every line the style.
func Paragraph(st theme.Style, s string, w int) []string {
	lines := text.Wrap(s, w)
	for i, l := range lines {
		lines[i] = st.Render(l)
	}
	return lines
}

// Block makes text exactly w by h: lines are cut and padded, missing ones added.
func Block(s string, w, h int) string {
	lines := strings.Split(s, "\n")
	out := make([]string, h)
	for i := range out {
		if i < len(lines) {
			out[i] = Fit(lines[i], w)
		} else {
			out[i] = strings.Repeat(" ", max(w, 0))
		}
	}
	return strings.Join(out, "\n")
}

// Beside puts two blocks side by side, the left one w columns wide.
func Beside(left string, w int, gap string, right string) string {
	l, r := strings.Split(left, "\n"), strings.Split(right, "\n")
	out := make([]string, max(len(l), len(r)))
	for i := range out {
		var a, b string
		if i < len(l) {
			a = l[i]
		}
		if i < len(r) {
			b = r[i]
		}
		out[i] = Fit(a, w) + gap + b
	}
	return strings.Join(out, "\n")
}

// Center puts one line of rendered text in the middle of w columns.
func Center(s string, w int) string {
	s = Cut(s, w)
	return strings.Repeat(" ", max((w-Width(s))/2, 0)) + s
}
