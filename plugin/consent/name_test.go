package consent

import (
	"strings"
	"testing"
)

// TestQuotedNames: no name leaves its quotes, passes for another, or is longer than its
// bound, and what looks like something else is named.
func TestQuotedNames(t *testing.T) {
	for name, want := range map[string]string{
		"prod":                       `"prod"`,
		"pr\u043ed":                  `"pr\u043ed" (contains Cyrillic letters)`,
		"\u03bfne tw\u043e":          `"\u03bfne tw\u043e" (contains Greek letters and Cyrillic letters)`,
		"\uff50rod":                  `"\uff50rod" (contains other Latin letters)`,
		"\u0131d":                    `"\u0131d" (contains other Latin letters)`,
		"a\u202eb":                   `"a\u202eb" (contains marks that change the writing direction)`,
		"a\u200bb":                   `"a\u200bb" (contains invisible characters)`,
		"a\u3164b":                   `"a\u3164b" (contains invisible characters)`,
		"e\u0301":                    `"e\u0301" (contains combining marks)`,
		"a\nNamespace  x":            `"a\nNamespace  x" (contains control characters)`,
		"a\xff":                      `"a\xff" (contains bytes that are not text)`,
		"\u201cb":                    `"\u201cb" (contains symbols beyond ASCII)`,
		`a" (dry run)`:               `"a\" (dry run)"`,
		"\u4e2d\U0001d41a":           `"\u4e2d\U0001d41a" (contains Han letters and unusual letters)`,
		"\u043e\u03bf\u05d0\u0627\n": `"\u043e\u03bf\u05d0\u0627\n" (contains Cyrillic letters, Greek letters, Hebrew letters and more)`,
		strings.Repeat("a", 101):     `"` + strings.Repeat("a", 100) + `" (1 more byte)`,
		strings.Repeat("a", 95) + "\u043e": `"` + strings.Repeat("a", 95) +
			`" (2 more bytes, contains Cyrillic letters)`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if Name("web-1.example/x") != "web-1.example/x" || Name("a b") != `"a b"` || Name("") != `""` ||
		!strings.HasPrefix(Name(strings.Repeat("a", 200)), `"`) {
		t.Error("words")
	}
}
