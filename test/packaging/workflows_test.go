package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/test/must"
)

var (
	uses   = regexp.MustCompile(`uses: *(\S+)(.*)`)
	pinned = regexp.MustCompile(`^[\w.-]+/[\w.-]+@[0-9a-f]{40}$`)
)

// TestWorkflowsArePinned: a workflow runs other people's actions only by the hash of a commit, with the version
// beside it, has no rights but reading unless a job names them, and names no secret: the release key is in none.
func TestWorkflowsArePinned(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		must.OK(t, err)
		for _, m := range uses.FindAllStringSubmatch(string(b), -1) {
			ours := strings.HasPrefix(m[1], "./")
			if !ours && (!pinned.MatchString(m[1]) || !strings.HasPrefix(m[2], " # v")) {
				t.Errorf("%s: %s%s is not a commit with its version beside it", file, m[1], m[2])
			}
		}
		if strings.Contains(string(b), "secrets.") {
			t.Errorf("%s names a secret", file)
		}
		var w struct {
			Permissions map[string]string `json:"permissions"`
		}
		if err := yaml.Unmarshal(b, &w); err != nil || len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: rights of all jobs: %v, %v", file, w.Permissions, err)
		}
	}
}
