package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/atomicfile"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, content := range []string{"first", "second"} {
		if err := atomicfile.Replace(path, ".state.tmp-", []byte(content)); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != content {
			t.Fatalf("%q, %v, want %q", b, err, content)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	alone(t, dir, 1)
}

// TestFailureLeavesNothing: what could not be put in its place is removed, and the
// target is as it was.
func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Replace(path, ".folder.tmp-", []byte("x")); err == nil {
		t.Fatal("replaced a folder")
	}
	alone(t, dir, 1)
	if err := atomicfile.Replace(filepath.Join(dir, "none", "file"), ".file.tmp-", nil); !os.IsNotExist(err) {
		t.Errorf("in no folder: %v", err)
	}
}

// alone wants n entries in dir.
func alone(t *testing.T, dir string, n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != n {
		t.Errorf("%v, %v: want %d entries", entries, err, n)
	}
}
