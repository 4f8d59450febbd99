//go:build unix

package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func env(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }

func TestFromEnv(t *testing.T) {
	run := t.TempDir()
	check(t, os.Chmod(run, 0o700))
	open := t.TempDir()
	check(t, os.Chmod(open, 0o777))
	for _, c := range []struct {
		name string
		env  map[string]string
		want Dirs
	}{
		{"KUBEHSM_HOME", map[string]string{"KUBEHSM_HOME": "/x/", "HOME": "/h", "XDG_RUNTIME_DIR": run},
			Dirs{Home: "/x", Config: "/x", State: "/x/state", Run: "/x/run"}},
		{"XDG", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": run},
			Dirs{Config: "/c/kubehsm", State: "/s/kubehsm", Run: run + "/kubehsm"}},
		{"defaults", map[string]string{"HOME": "/h"},
			Dirs{Config: "/h/.config/kubehsm", State: "/h/.local/state/kubehsm", Run: "/h/.local/state/kubehsm/run"}},
		{"relative XDG is ignored", map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r"},
			Dirs{Config: "/h/.config/kubehsm", State: "/h/.local/state/kubehsm", Run: "/h/.local/state/kubehsm/run"}},
		{"a runtime folder open to all", map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": open},
			Dirs{Config: "/h/.config/kubehsm", State: "/h/.local/state/kubehsm", Run: "/h/.local/state/kubehsm/run"}},
	} {
		if got, err := FromEnv(env(c.env)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	if _, err := FromEnv(env(map[string]string{"KUBEHSM_HOME": "x"})); err == nil || hint.Of(err) == "" {
		t.Error(err)
	}
}

func testDirs(t *testing.T) Dirs {
	t.Helper()
	d, err := FromEnv(env(map[string]string{"KUBEHSM_HOME": t.TempDir()}))
	check(t, err)
	return d
}

func TestPrepare(t *testing.T) {
	d := testDirs(t)
	check(t, d.Prepare())
	check(t, d.Prepare())
	for _, dir := range []string{d.State, d.Run} {
		info, err := os.Stat(dir)
		check(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", dir, info.Mode())
		}
	}
	for _, dir := range []string{d.State, d.Run, d.Home} {
		check(t, os.Chmod(dir, 0o770))
		if err := d.Prepare(); !errors.Is(err, ErrUnsafe) || !strings.Contains(hint.Of(err), "chmod go-w "+dir) {
			t.Errorf("%s: %v", dir, err)
		}
		check(t, os.Chmod(dir, 0o700))
	}
	check(t, os.Remove(d.Run))
	check(t, os.WriteFile(d.Run, nil, 0o600))
	if err := d.Prepare(); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestOthersFoldersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "only root can give a folder away")
	}
	d := testDirs(t)
	check(t, d.Prepare())
	check(t, os.Chown(d.State, 65534, 65534))
	if err := d.Prepare(); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "65534") {
		t.Fatal(err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	check(t, WriteFile(path, []byte("old")))
	var wg sync.WaitGroup
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)} {
		wg.Go(func() {
			if err := WriteFile(path, []byte(text)); err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 {
		b, err := os.ReadFile(path)
		check(t, err)
		if len(b) != 3 && strings.Trim(string(b), b2s(b[0])) != "" {
			t.Fatal("half of one and half of another")
		}
	}
	wg.Wait()
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	// A failed write leaves the old file and nothing else.
	check(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	if err := WriteFile(filepath.Join(dir, "d"), nil); err == nil {
		t.Error("a folder was replaced")
	}
	if err := WriteFile(filepath.Join(dir, "missing", "f"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	check(t, err)
	if len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

func b2s(b byte) string { return string([]byte{b}) }

// TestSweep: what a killed process left unfinished goes, once nobody can be
// writing it any more.
func TestSweep(t *testing.T) {
	d := testDirs(t)
	check(t, d.Prepare())
	old := time.Now().Add(-2 * sweptAfter)
	file := func(name string, age time.Time) string {
		path := filepath.Join(d.State, name)
		check(t, MakeDir(filepath.Dir(path)))
		check(t, os.WriteFile(path, []byte("{}"), 0o600))
		check(t, os.Chtimes(path, age, age))
		return path
	}
	folder := filepath.Dir(file(".bridge.tmp-7/server.key", old))
	check(t, os.Chtimes(folder, old, old))
	elsewhere := file("kept/precious", old)
	link := filepath.Join(d.State, ".link.tmp-1")
	check(t, os.Symlink(filepath.Dir(elsewhere), link))
	gone := []string{file(".a.json.tmp-123", old), file("enrollments/.b.tmp-1.json.tmp-0", old), folder}
	stays := []string{elsewhere, link, file(".a.json.tmp-124", time.Now()), file(".a.json.tmp-", old),
		file(".a.json.tmp-1x", old),
		file("a.json.tmp-1", old), file(".a.json", old), file("enrollments/a.json", old)}
	if os.Geteuid() == 0 {
		others := file(".others.tmp-1", old)
		check(t, os.Chown(others, 65534, 65534))
		stays = append(stays, others)
	}
	check(t, Sweep(d.State))
	for _, path := range gone {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	for _, path := range stays {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	// What is written from now on is recognized if it is left behind.
	check(t, WriteFile(filepath.Join(d.State, "c"), nil))
	f, err := os.CreateTemp(d.State, TempName("c"))
	check(t, err)
	check(t, f.Close())
	check(t, os.Chtimes(f.Name(), old, old))
	check(t, Sweep(d.State))
	if _, err := os.Lstat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestSettled: the folder of the agent of this host is found whatever the environment says, until it goes with its
// session.
func TestSettled(t *testing.T) {
	if host() == "" {
		need.Missing(t, "the system does not name this host")
	}
	user, session, later := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{session, later} {
		check(t, os.Chmod(dir, 0o700))
	}
	leads := func(runtime string) string {
		t.Helper()
		d, err := FromEnv(env(map[string]string{"HOME": user, "XDG_RUNTIME_DIR": runtime}))
		check(t, err)
		check(t, d.Prepare())
		to, err := filepath.EvalSymlinks(d.Settled().Run)
		check(t, err)
		return to
	}
	for _, runtime := range []string{session, "", later} {
		if got := leads(runtime); got != filepath.Join(session, "kubehsm") {
			t.Errorf("with %q it is %s", runtime, got)
		}
	}
	check(t, os.RemoveAll(filepath.Join(session, "kubehsm"))) // its user has logged out
	for _, runtime := range []string{"", later} {
		if got := leads(runtime); got != filepath.Join(user, ".local/state/kubehsm/run") {
			t.Errorf("after the session, with %q it is %s", runtime, got)
		}
	}
}
