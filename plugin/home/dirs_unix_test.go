//go:build unix

package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFile: only a file of ours is read, and only up to a limit. A pipe keeps nobody waiting.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, size := range []int{0, 1, 511, 512, 4096, 100_000} {
		want := strings.Repeat("x", size)
		check(t, os.WriteFile(path, []byte(want), 0o600))
		for _, buf := range [][]byte{nil, make([]byte, 3), make([]byte, 7, 512), make([]byte, 0, 200_000)} {
			if got, err := ReadFile(path, 100_000, buf); err != nil || string(got) != want {
				t.Errorf("%d bytes into %d: %d, %v", size, cap(buf), len(got), err)
			}
			if got, err := ReadFile(path, int64(size)-1, buf); size > 0 && (err == nil || got != nil) {
				t.Errorf("%d bytes are too many: %d, %v", size, len(got), err)
			}
		}
	}
	check(t, os.Chmod(path, 0o620))
	check(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for name, want := range map[string]error{"a": ErrUnsafe, "pipe": ErrUnsafe, ".": ErrUnsafe, "none": fs.ErrNotExist} {
		if _, err := ReadFile(filepath.Join(dir, name), 1<<20, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	// What the system makes up as it is read has no size.
	if os.Geteuid() == 0 {
		if got, err := ReadFile("/proc/self/status", 1<<20, nil); !errors.Is(err, fs.ErrNotExist) && (err != nil || len(got) == 0) {
			t.Errorf("a file without a size: %d bytes, %v", len(got), err)
		}
	}
}
