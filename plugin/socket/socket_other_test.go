//go:build !windows

package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	if runtime.GOOS == "linux" { // longer than sun_path
		path = filepath.Join(t.TempDir(), strings.Repeat("long", 20), strings.Repeat("name", 20), "sock")
	}
	check(t, os.MkdirAll(filepath.Dir(path), 0o700))
	dead, err := Listen(path)
	check(t, err)
	old, err := TakeName(path)
	check(t, err)
	check(t, dead.Close())
	if _, err := Dial(t.Context(), path); err == nil {
		t.Error("somebody answers on a dead socket")
	}
	l, err := Listen(path) // in its place
	check(t, err)
	defer l.Close()
	name, err := TakeName(path)
	check(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || name.Lost() || !old.Lost() {
		t.Errorf("%v, %v, lost %t, the old one lost %t", info.Mode(), err, name.Lost(), old.Lost())
	}
	if err := old.Remove(); err != nil || name.Lost() { // the path belongs to the new socket by now
		t.Errorf("removed what was not its own: %v", err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			if pid := PeerPID(c); pid != os.Getpid() && pid != 0 {
				t.Errorf("the peer is process %d, not %d", pid, os.Getpid())
			}
			err = c.Close()
		}
		accepted <- err
	}()
	c, err := Dial(t.Context(), path)
	check(t, err)
	if err := errors.Join(<-accepted, c.Close(), name.Remove()); err != nil || !name.Lost() {
		t.Errorf("%v, lost %t", err, name.Lost())
	}
}

func TestListenLeavesFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, []byte("mine"), 0o600))
	if l, err := Listen(path); err == nil {
		t.Error("a file was replaced", l.Close())
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

func TestNoSocket(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	defer a.Close()
	if CheckPeer(a) == nil || PeerPID(a) != 0 {
		t.Error("a pipe has a peer")
	}
}

// TestLongName: no folder makes a name short that is too long by itself.
func TestLongName(t *testing.T) {
	t.Chdir(t.TempDir())
	long, longer := strings.Repeat("n", 120), strings.Repeat("n", 300) // no file's name is as long
	for _, path := range []string{long, filepath.Join(t.TempDir(), long), longer, filepath.Join(t.TempDir(), longer)} {
		_, err := Listen(path)
		var hint interface{ Hint() string }
		if !errors.Is(err, wire.ErrPath) || !errors.As(err, &hint) {
			t.Errorf("listen at %s: %v", path, err)
		}
		if _, err := Dial(t.Context(), path); !errors.Is(err, wire.ErrPath) {
			t.Errorf("dial %s: %v", path, err)
		}
	}
}

// TestCheck: what is refused is refused before anything is made or removed.
func TestCheck(t *testing.T) {
	folder := t.TempDir()
	file, link := filepath.Join(folder, "file"), filepath.Join(folder, "link")
	check(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(filepath.Join(folder, "none"), link)))
	for _, path := range []string{file, link, folder} {
		if err := checkPath(path); err == nil || !strings.HasSuffix(err.Error(), "is not a socket") || hinting.Of(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := checkPath(filepath.Join(folder, strings.Repeat("n", 120))); !errors.Is(err, wire.ErrPath) {
		t.Errorf("a long name: %v", err)
	}
	if err := checkPath(filepath.Join(folder, "free")); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}
