package cli

import (
	"strings"
	"testing"
)

// TestStatus: words, one line for a shell prompt, and a document.
func TestStatus(t *testing.T) {
	b := newBench(t)
	b.kubeconfig()
	if out := b.ok("status"); !strings.Contains(out, "not kubehsm's") || !strings.Contains(out, "kubehsm enroll") {
		t.Errorf("before anything is enrolled:\n%s", out)
	}
	if out := b.ok("status", "--short"); out != "" {
		t.Errorf("in short: %q", out)
	}
	b.fails(2, "short", "status", "--short", "-o", "json")
	if doc := document(t, b.ok("status", "-o", "json")); doc["next"] != "kubehsm enroll" || doc["context"] != "prod" {
		t.Errorf("%v", doc)
	}
}
