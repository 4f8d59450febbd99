package widget

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Diff draws a unified diff, cleaned, in lines of at most w columns. The signs
// at the start of its lines stay, so that it reads without colour.
func Diff(t theme.Theme, diff string, w int) []string {
	var lines []string
	for _, l := range strings.Split(strings.TrimRight(diff, "\n"), "\n") {
		shown := Cut(text.Clean(l), w)
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"):
			shown = t.Muted.Render(shown)
		case strings.HasPrefix(l, "+"):
			shown = t.DiffAdd.Render(shown)
		case strings.HasPrefix(l, "-"):
			shown = t.DiffDel.Render(shown)
		case strings.HasPrefix(l, "@@"):
			shown = t.DiffHunk.Render(shown)
		default:
			shown = t.Muted.Render(shown)
		}
		lines = append(lines, shown)
	}
	return lines
}
