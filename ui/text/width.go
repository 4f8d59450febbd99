package text

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Ellipsis is what [Truncate] puts in place of what it cuts.
const Ellipsis = "…"

// Width returns the number of terminal columns that s takes: 2 for wide (CJK)
// characters and emoji, 0 for combining marks. s is clean text of one line.
func Width(s string) int { return displaywidth.String(s) }

// Truncate returns clean text s cut to at most width columns, never inside a
// character. What is cut is marked by [Ellipsis]. A width below 1 gives "".
func Truncate(s string, width int) string {
	if width < 1 {
		return ""
	}
	return displaywidth.TruncateString(s, width, Ellipsis)
}

// Pad returns s with spaces to its right up to width columns; longer text is
// returned as it is.
func Pad(s string, width int) string {
	if n := width - Width(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
