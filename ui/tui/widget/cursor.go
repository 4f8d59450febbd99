package widget

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// mark stands in rendered text where the terminal's cursor belongs. An APC string takes no column,
// and clean text cannot contain it.
const mark = "\x1b_kubehsm:cursor\x1b\\"

// CursorMark is what a text field renders at its cursor, so that the real
// cursor of the terminal goes there: screen readers and input methods follow it.
func CursorMark() string { return mark }

// TakeCursor removes cursor marks from rendered text and returns the place of
// the last one: column and line, from 0.
func TakeCursor(s string) (clean string, x, y int, found bool) {
	i := strings.LastIndex(s, mark)
	if i < 0 {
		return s, 0, 0, false
	}
	before := strings.ReplaceAll(s[:i], mark, "")
	y = strings.Count(before, "\n")
	x = ansi.StringWidth(before[strings.LastIndexByte(before, '\n')+1:])
	return strings.ReplaceAll(s, mark, ""), x, y, true
}
