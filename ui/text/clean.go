package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks bounds the combining marks on one character: more of them paint
// over the lines around.
const maxMarks = 4

// Clean returns s fit for one line of a terminal. What could move the cursor,
// start an escape sequence, turn the writing direction or hide is shown as an
// escape in Go's notation instead: "\n", "\x1b", "\u202e"; a byte that is not
// UTF-8 as "\xff". Tabs and exotic spaces become one space. A backslash stays
// as it is. Text without such characters is returned unchanged.
func Clean(s string) string { return clean(s, false) }

// CleanLines is [Clean] for text of several lines: line breaks stay ("\r\n"
// becomes "\n"), those at the end are dropped.
func CleanLines(s string) string {
	return clean(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), true)
}

func clean(s string, lines bool) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	marks := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.Is(unicode.M, r) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' && lines:
			b.WriteByte('\n')
		case r == '\t' || unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		case !Visible(r) || marks > maxMarks:
			b.WriteString(escape(r))
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// plain tells whether s is printable ASCII, as nearly all of it is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Visible tells whether r shows as itself and changes nothing around it: no
// control, no direction override, no letter without a shape.
func Visible(r rune) bool { return unicode.IsPrint(r) && !invisible(r) }

// invisible recognizes letters that show nothing and so make two names look alike.
func invisible(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800', '\u034f', '\u17b4', '\u17b5':
		return true
	}
	return r >= '\U000e0100' && r <= '\U000e01ef' // variation selectors beyond emoji's
}

func escape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
