//go:build cgo

package pkcs11

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestKnows(t *testing.T) {
	dir := t.TempDir()
	module, other, link := filepath.Join(dir, "a.so"), filepath.Join(dir, "b.so"), filepath.Join(dir, "link.so")
	for _, path := range []string{module, other} {
		must.OK(t, os.WriteFile(path, nil, 0o600))
	}
	must.OK(t, os.Symlink(module, link))
	d := New(Options{Modules: []Module{{Path: module}}})
	for path, want := range map[string]bool{module: true, link: true, other: false, filepath.Join(dir, "none.so"): false} {
		if got := d.Knows(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}
