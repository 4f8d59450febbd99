package widget

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Box draws a border with a title around content of w columns.
func Box(t theme.Theme, line theme.Style, title, content string, w int) string {
	b := t.Glyphs.Border
	var out strings.Builder
	head := ""
	if title != "" {
		head = " " + Cut(title, w-4) + " "
	}
	out.WriteString(line.Render(b.TopLeft+b.Top) + line.Bold().Render(head) +
		line.Render(strings.Repeat(b.Top, max(w+1-Width(head), 0))+b.TopRight) + "\n")
	for _, l := range strings.Split(content, "\n") {
		out.WriteString(line.Render(b.Left) + " " + Fit(l, w) + " " + line.Render(b.Right) + "\n")
	}
	out.WriteString(line.Render(b.BottomLeft + strings.Repeat(b.Bottom, w+2) + b.BottomRight))
	return out.String()
}

// Overlay puts top over base at column x and line y. Both are rendered text;
// base's lines are as wide as the screen.
func Overlay(base, top string, x, y int) string {
	lines := strings.Split(base, "\n")
	for i, l := range strings.Split(top, "\n") {
		if y+i < 0 || y+i >= len(lines) {
			continue
		}
		under, w := lines[y+i], Width(l)
		left := Fit(ansi.Truncate(under, x, ""), x) // a wide character may be cut in half
		room := Width(under) - x - w
		right := ansi.TruncateLeft(under, x+w, "")
		for cut := x + w + 1; Width(right) > max(room, 0); cut++ {
			right = ansi.TruncateLeft(under, cut, "")
		}
		if n := room - Width(right); n > 0 {
			right = strings.Repeat(" ", n) + right
		}
		lines[y+i] = left + l + right
	}
	return strings.Join(lines, "\n")
}

// Dim draws rendered text again without its styles, as what lies behind a dialog. Its lines keep
// their widths: characters that only a style kept apart may join into one.
func Dim(t theme.Theme, s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		l = Fit(ansi.Strip(l), Width(l))
		lines[i] = l
		if trimmed := strings.TrimRight(l, " "); trimmed != "" {
			lines[i] = t.Behind.Render(trimmed) + l[len(trimmed):]
		}
	}
	return strings.Join(lines, "\n")
}
