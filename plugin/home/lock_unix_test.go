//go:build unix

package home

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLock: one holder at a time, and no file is made where a link leads.
func TestLock(t *testing.T) {
	folder := t.TempDir()
	path, link, victim := filepath.Join(folder, "lock"), filepath.Join(folder, "link"), filepath.Join(folder, "victim")
	check(t, os.Symlink(victim, link))
	for i, want := range []bool{true, false} {
		l, err := Lock(path)
		check(t, err)
		defer l.Close()
		if ours, err := l.TryLock(); err != nil || ours != want {
			t.Errorf("%d: %t, %v", i, ours, err)
		}
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Lock(link); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("a link: %v", err)
	}
	if _, err := os.Lstat(victim); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where the link leads: %v", err)
	}
}
