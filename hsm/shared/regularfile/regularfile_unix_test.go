//go:build unix

package regularfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// TestOthersAreRefused: a pipe keeps neither who reads nor who writes, and is not opened; neither are devices and
// folders.
func TestOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	check(t, syscall.Mkfifo(pipe, 0o600))
	check(t, os.Symlink(pipe, link))
	for _, path := range []string{pipe, link, dir, "/dev/zero"} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREATE, os.O_RDWR} {
			if f, _, err := Open(path, flag); !errors.Is(err, ErrOther) {
				t.Errorf("%s, %x: %v, %v", path, flag, f, err)
			}
		}
	}
}

// TestBound: a file of gigabytes is not read.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const text = "some text"
	check(t, os.WriteFile(path, []byte(text), 0o600))
	for most, want := range map[int64]string{int64(len(text)): text, 1 << 30: text, int64(len(text)) - 1: "", 0: ""} {
		if b, err := Read(path, most); string(b) != want || (err == nil) != (want != "") {
			t.Errorf("%d: %q, %v", most, b, err)
		}
	}
	check(t, os.Truncate(path, 3<<30))
	if b, err := Read(path, 1<<20); b != nil || err == nil || !strings.HasSuffix(err.Error(), " is larger than 1048576 bytes") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
