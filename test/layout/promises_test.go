package layout

import (
	"os"
	"os/exec"
	"path/filepath"
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
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	held, faults := promises(string(text), testNames(t))
	for _, f := range faults {
		t.Error("docs/security.md: " + f)
	}
	if held < 40 {
		t.Errorf("only %d promises were found", held)
	}
}

func TestPromises(t *testing.T) {
	known := []string{"TestA", "TestB", "FuzzC"}
	for _, c := range []struct {
		text   string
		held   int
		faults []string
	}{
		{"# Head\n\nIt holds, as is seen\nin the second line. [TestA, FuzzC]\n\nNot this. [limit]\n", 1, nil},
		{"- one [TestA]\n- two\n  lines [TestB]\n\n| a | b |\n|---|---|\n| x | holds [TestA] |\n", 3, nil},
		{"Two in one line [TestA], and [TestB].\n", 1, nil},
		{"It holds.\n", 0, []string{"no test holds: It holds."}},
		{"- one [TestA]\n- two\n", 1, []string{"no test holds: - two"}},
		{"| a | b |\n|---|---|\n| x | holds |\n", 0, []string{"no test holds: | x | holds |"}},
		{"It holds. [TestA, TestGone]\n", 1, []string{"there is no TestGone"}},
		{"See [another page](page.md).\n", 0, []string{"no test holds: See [another page](page.md)."}},
		{"It holds. [TestA,\nTestB]\n", 1, nil},
		{"It leads to a list:\n\n- one [TestA]\n", 1, nil},
	} {
		held, faults := promises(c.text, known)
		if held != c.held || !slices.Equal(faults, c.faults) {
			t.Errorf("%q: %d held, %q; want %d, %q", c.text, held, faults, c.held, c.faults)
		}
	}
}

var (
	item    = regexp.MustCompile(`(?m)^(- |\|)`)
	mention = regexp.MustCompile(`\[((?:(?:Test|Fuzz)\w+(?:,\s+)?)+|limit)\]`)
)

// promises counts those of a page that name tests, and tells of those that do not
// and of tests that are not known.
func promises(page string, known []string) (held int, faults []string) {
	for block := range strings.SplitSeq(page, "\n\n") {
		block = strings.TrimSpace(block)
		rest := []string{block}
		if starts := item.FindAllStringIndex(block, -1); len(starts) > 0 {
			rest = nil
			for i, s := range starts {
				end := len(block)
				if i+1 < len(starts) {
					end = starts[i+1][0]
				}
				rest = append(rest, strings.TrimSpace(block[s[0]:end]))
			}
			if strings.HasPrefix(block, "|") {
				rest = rest[2:] // the table's head
			}
		}
		for _, promise := range rest {
			// A heading, or what leads to a list or table, says nothing by itself.
			if promise == "" || strings.HasPrefix(promise, "#") || strings.HasSuffix(promise, ":") {
				continue
			}
			names := mention.FindAllStringSubmatch(promise, -1)
			if names == nil {
				faults = append(faults, "no test holds: "+promise)
				continue
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
	}
	return held, faults
}

// testNames are all tests and fuzzers of the tree.
func testNames(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var names []string
	test := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)
	for _, file := range strings.Fields(string(out)) {
		src, err := os.ReadFile(filepath.Join(cmd.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range test.FindAllSubmatch(src, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}
