package layout

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestPromisesAreHeld: in docs/security.md each paragraph, item and row ends with
// the tests that hold what it promises, [TestThis, TestThat], or with [limit] where
// it promises nothing. These tests exist.
func TestPromisesAreHeld(t *testing.T) {
	held, faults := promises(read(t, "docs/security.md"), testNames(t))
	for _, f := range faults {
		t.Error("docs/security.md: " + f)
	}
	if held < 40 {
		t.Errorf("only %d promises were found", held)
	}
}

func TestPromises(t *testing.T) {
	held, faults := promises("# Head\n\nIt holds, as is seen\nin the second line. [TestA,\nTestB]\n\nNot this. [limit]\n\n"+
		"It leads to a list:\n\n- one [TestA]\n- two\n  lines [TestB], and more [TestA].\n- three\n\n"+
		"| a | b |\n|---|---|\n| x | holds [TestA] |\n| x | holds |\n\nSee [another page](page.md).\n\nIt holds. [TestGone]\n",
		[]string{"TestA", "TestB"})
	want := []string{"no test holds: three", "no test holds: x | holds |",
		"no test holds: See [another page](page.md).", "there is no TestGone"}
	if held != 5 || !slices.Equal(faults, want) {
		t.Errorf("%d held, %q; want 5, %q", held, faults, want)
	}
}

var (
	tableHead = regexp.MustCompile(`(?m)^\|.*\n\|[-|]+$`)
	// A paragraph, an item of a list and a row of a table are each a promise.
	next    = regexp.MustCompile(`\n(?:\n|(?:- |\| ))`)
	mention = regexp.MustCompile(`\[((?:(?:Test|Fuzz)\w+(?:,\s+)?)+|limit)\]`)
)

// promises counts those of a page that name tests, and tells of those that do not
// and of tests that are not known.
func promises(page string, known []string) (held int, faults []string) {
	for _, promise := range next.Split(tableHead.ReplaceAllString(page, ""), -1) {
		promise = strings.TrimSpace(promise)
		// A heading, or what leads to a list or table, says nothing by itself.
		if promise == "" || strings.HasPrefix(promise, "#") || strings.HasSuffix(promise, ":") {
			continue
		}
		names := mention.FindAllStringSubmatch(promise, -1)
		if names == nil {
			faults = append(faults, "no test holds: "+promise)
		}
		promised := false
		for _, m := range names {
			for name := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
				promised = promised || name != "limit"
				if name != "limit" && !slices.Contains(known, name) {
					faults = append(faults, "there is no "+name)
				}
			}
		}
		if promised {
			held++
		}
	}
	return held, faults
}

// testNames are all tests and fuzzers of the tree.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	test := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)
	for _, file := range files(t, "*_test.go") {
		for _, m := range test.FindAllStringSubmatch(read(t, file), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
