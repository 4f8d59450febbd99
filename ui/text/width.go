package text

import (
	"strings"
	"unicode/utf8"

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

// Wrap breaks clean text into lines of at most width columns, at spaces only: names,
// URIs and options stay whole where they fit on a line.
func Wrap(s string, width int) []string {
	width = max(width, 1)
	var lines []string
	for _, line := range strings.Split(s, "\n") {
		lines = append(lines, wrapLine(line, width)...)
	}
	return lines
}

func wrapLine(s string, width int) []string {
	if Width(s) <= width {
		return []string{s}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
		for !fits(line, width) {
			part := Beginning(line, width)
			lines, line = append(lines, part), line[len(part):]
		}
	}
	return append(lines, line)
}

// fits reports whether s takes at most width columns, without reading on where it does not:
// a word may be as long as somebody else likes.
func fits(s string, width int) bool {
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		if width -= g.Width(); width < 0 {
			return false
		}
	}
	return true
}

// Beginning is the beginning of clean text s of at most width columns, and at least one character.
func Beginning(s string, width int) string {
	end, used := 0, 0
	for i, r := range s {
		wide := 1
		if r < ' ' || r > '~' {
			wide = Width(string(r))
		}
		if used+wide > width && i > 0 {
			break
		}
		used += wide
		end = i + utf8.RuneLen(r)
	}
	return s[:end]
}
