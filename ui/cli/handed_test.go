package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui"
)

// TestHandedIsBounded: a file that never ends fills no memory.
func TestHandedIsBounded(t *testing.T) {
	b := newBench(t)
	large := filepath.Join(b.home, "large")
	must.OK(t, os.WriteFile(large, make([]byte, maxHanded+2), 0o600))
	for _, path := range []string{"/dev/zero", large, filepath.Join(b.home, "missing")} {
		code, _, stderr := b.run("join", "--ticket", path)
		if code != ui.ExitUsage || !strings.Contains(stderr, "neither a ticket nor a file with one") ||
			strings.Contains(stderr, path) {
			t.Errorf("%s: exit %d, %s", path, code, stderr)
		}
	}
	if content, err := readHanded("/dev/zero"); err != nil || len(content) != maxHanded+1 {
		t.Errorf("%d bytes read, %v", len(content), err)
	}
}
