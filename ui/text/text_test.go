package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "My Token 1", "My Token 1"},
		{"letters", "Schlüssel für Jürgen, 鍵 🔑", "Schlüssel für Jürgen, 鍵 🔑"},
		{"csi", "a\x1b[31mb", `a\x1b[31mb`},
		{"osc", "\x1b]0;title\x07", `\x1b]0;title\x07`},
		{"c1 csi", "a\u009b31m", `a\x9b31m`},
		{"c1 as a raw byte", "a\x9b31m", `a\x9b31m`},
		{"newline", "a\nb\r\n", `a\nb\r\n`},
		{"tab", "a\tb", "a b"},
		{"no-break space", "a\u00a0b", "a b"},
		{"bidi override", "a\u202eb", `a\u202eb`},
		{"bidi isolate", "\u2066b", `\u2066b`},
		{"zero width", "a\u200bb\ufeff", `a\u200bb\ufeff`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"tag characters", "a\U000e0041", `a\U000e0041`},
		{"filler", "a\u3164", `a\u3164`},
		{"delete", "a\x7f", `a\x7f`},
		{"invalid", "a\xffb\xc3", `a\xffb\xc3`},
		{"replacement character itself", "a\ufffd", "a\ufffd"},
		{"nul", "a\x00b", `a\x00b`},
		{"marks", "e" + strings.Repeat("\u0301", 6), "e" + strings.Repeat("\u0301", 4) + `\u0301\u0301`},
		{"empty", "", ""},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestCleanLines(t *testing.T) {
	if got, want := CleanLines("a\x1b[2J\r\nb\rc\n\n"), `a\x1b[2J`+"\n"+`b\rc`; got != want {
		t.Errorf("CleanLines = %q, want %q", got, want)
	}
}

func TestWidthAndTruncate(t *testing.T) {
	if got := Width("鍵🔑a"); got != 5 {
		t.Errorf("Width = %d, want 5", got)
	}
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"鍵鍵鍵", 5, "鍵鍵…"},
		{"鍵鍵鍵", 4, "鍵…"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"", 3, ""},
	} {
		if got := Truncate(c.in, c.width); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
	if got := Pad("鍵", 4); got != "鍵  " {
		t.Errorf("Pad = %q", got)
	}
	if got := Pad("abc", 2); got != "abc" {
		t.Errorf("Pad = %q", got)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a", "\x1b[31m", "\xff\x9b", "a\u202eb\n", "🔑\u200d", "\u0301\u0301\u0301\u0301\u0301"} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		check := func(what, out string, newline bool) {
			if !utf8.ValidString(out) {
				t.Fatalf("%s of %q is not UTF-8: %q", what, s, out)
			}
			for _, r := range out {
				if r == '\n' && newline {
					continue
				}
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
					t.Fatalf("%s of %q has %U: %q", what, s, r, out)
				}
			}
		}
		line := Clean(s)
		check("Clean", line, false)
		check("CleanLines", CleanLines(s), true)
		if again := Clean(line); again != line {
			t.Fatalf("Clean is not stable: %q, then %q", line, again)
		}
		if width >= 0 && fits(line, width) != (Width(line) <= width) {
			t.Fatalf("%q has %d columns, of %d", line, Width(line), width)
		}
		short := Truncate(line, width)
		check("Truncate", short, false)
		if width >= 0 && Width(short) > width {
			t.Fatalf("Truncate(%q, %d) = %q is %d wide", line, width, short, Width(short))
		}
	})
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in   string
		w    int
		want []string
	}{
		{"a b c", 3, []string{"a b", "c"}},
		{"--context trial-admin", 14, []string{"--context", "trial-admin"}}, // never at a hyphen
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"x abcdefgh y", 4, []string{"x", "abcd", "efgh", "y"}},
		{"日本語 テ", 4, []string{"日本", "語", "テ"}},
		{"", 4, []string{""}},
		{"a\nb", 9, []string{"a", "b"}},
	} {
		if got := Wrap(c.in, c.w); !slices.Equal(got, c.want) {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.in, c.w, got, c.want)
		}
	}
	if got := Wrap(strings.Repeat("a", 1<<20), 4); len(got) != 1<<18 { // takes minutes if each line read all that follows
		t.Errorf("%d lines", len(got))
	}
}
