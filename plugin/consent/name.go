package consent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxShown = 100

// Quote puts a name that somebody else chose into quotes that it cannot leave. Only ASCII
// stays as it is. What is cut off, and letters that may look like others, are told of
// behind the quotes in words: "pr\u043ed" (contains Cyrillic letters).
func Quote(s string) string {
	n := 0
	for width := 0; n < len(s); {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == utf8.RuneError && size == 1 {
			width += len(`\xff`)
		} else {
			width += len(strconv.QuoteRuneToASCII(r)) - len(`''`)
		}
		if width > maxShown {
			break
		}
		n += size
	}
	q := quoted(s[:n])
	var notes []string
	if n < len(s) {
		notes = append(notes, rest(len(s)-n))
	}
	if odd := foreign(s); odd != "" {
		notes = append(notes, "contains "+odd)
	}
	if len(notes) > 0 {
		q += " (" + strings.Join(notes, ", ") + ")"
	}
	return q
}

func rest(n int) string {
	if n == 1 {
		return "1 more byte"
	}
	return fmt.Sprintf("%d more bytes", n)
}

// Name is [Quote], but for a plain word as [Word] has it, which stays without quotes.
func Name(s string) string {
	if len(s) <= maxShown && Word(s) == s {
		return s
	}
	return Quote(s)
}

const maxNoted = 3

// foreign names the kinds of characters in s that are not ASCII, such as "Cyrillic letters and
// invisible characters", "" for none.
func foreign(s string) string {
	var kinds []string
	var scripts []*unicode.RangeTable // of letters so far: to find a script takes long
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		var kind string
		switch {
		case r == utf8.RuneError && n == 1:
			kind = "bytes that are not text"
		case r < ' ' || r == 0x7f:
			kind = "control characters"
		case r < utf8.RuneSelf:
			continue
		case unicode.Is(unicode.Bidi_Control, r):
			kind = "marks that change the writing direction"
		case unicode.Is(unicode.M, r):
			kind = "combining marks"
		case !unicode.IsGraphic(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			kind = "invisible characters"
		case slices.ContainsFunc(scripts, func(t *unicode.RangeTable) bool { return unicode.Is(t, r) }):
			continue
		case unicode.IsLetter(r):
			name, table := script(r)
			kind, scripts = name+" letters", append(scripts, table)
		default:
			kind = "symbols beyond ASCII"
		}
		if slices.Contains(kinds, kind) {
			continue
		}
		if len(kinds) == maxNoted {
			return strings.Join(kinds, ", ") + " and more"
		}
		kinds = append(kinds, kind)
	}
	if last := len(kinds) - 1; last > 0 {
		return strings.Join(kinds[:last], ", ") + " and " + kinds[last]
	}
	return strings.Join(kinds, "")
}

// script is the writing system of a letter beyond ASCII, with its table.
func script(r rune) (string, *unicode.RangeTable) {
	if unicode.Is(unicode.Latin, r) {
		return "other Latin", unicode.Latin
	}
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
			return strings.ReplaceAll(name, "_", " "), table
		}
	}
	return "unusual", new(unicode.RangeTable)
}

// quoted puts a stranger's text into quotes that it cannot leave. Everything but ASCII is escaped:
// other alphabets have letters and quotation marks that look alike.
func quoted(s string) string { return strconv.QuoteToASCII(s) }
