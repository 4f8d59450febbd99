package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinksLead: a link of a page to this repository leads to a file that is there, and to a heading of it.
func TestLinksLead(t *testing.T) {
	top := filepath.Join("..", "..")
	cmd := exec.Command(
		"git",
		"ls-files",
		"--cached",
		"--others",
		"--exclude-standard",
		"README.md",
		"docs/*.md",
		".github/*.md",
	)
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	read := func(page string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	found := 0
	for _, page := range strings.Fields(string(out)) {
		for _, m := range link.FindAllStringSubmatch(read(page), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			found++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(top, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(target)), anchor) {
				t.Errorf("%s: %s has no heading %q", page, target, anchor)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d links were found", found)
	}
}

// anchors are the names by which the headings of a page are linked to.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
