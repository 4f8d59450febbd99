package widget

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// From which size on the details of the selection are shown beside a list, or
// below it.
const (
	besideWidth, belowHeight = 118, 16
	minDetail, maxDetail     = 46, 76
)

// Split draws a list and the details of what is selected in it, w by h: side by
// side where there is room, else the details below, or not at all. detail is
// rendered lines for a width.
func Split(t theme.Theme, w, h int, list func(w, h int) string, detail func(w int) []string) string {
	switch {
	case w >= besideWidth:
		side := min(max(w*2/5, minDetail), maxDetail)
		gap := " " + t.Faint.Render(t.Glyphs.Bar) + "  "
		left := list(w-side-4, h)
		right := Block(strings.Join(detail(side), "\n"), side, h)
		return Beside(left, w-side-4, gap, right)
	case h >= belowHeight:
		d := detail(w)
		d = d[:min(len(d), h/2-1)]
		rule := t.Faint.Render(strings.Repeat(t.Glyphs.Rule, max(w, 0)))
		return list(w, h-len(d)-1) + "\n" + rule + "\n" + strings.Join(d, "\n")
	}
	return list(w, h)
}
