package externalsigner

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// library writes a file to be taken for one, in a folder of ours.
func library(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	path := filepath.Join(dir, "lib.so")
	check(t, os.WriteFile(path, []byte("code"), 0o600))
	return path
}

// TestUnknownLibrary: it is loaded after one yes, until it changes.
func TestUnknownLibrary(t *testing.T) {
	path := library(t)
	link := filepath.Join(filepath.Dir(path), "link.so")
	check(t, os.Symlink(path, link))
	m := Modules{State: filepath.Join(t.TempDir(), "state")}

	if _, err := m.admit(t.Context(), path, nil); !errors.Is(err, ErrUntrusted) || !errors.Is(err, hsm.ErrNoTerminal) ||
		hint.Of(err) == "" {
		t.Errorf("nobody to ask: %v", err)
	}
	if _, err := m.admit(t.Context(), path, hsmtest.NewScript(t, hsmtest.Fail(hsm.ErrNoTerminal))); !errors.Is(err,
		ErrUntrusted) || !errors.Is(err, hsm.ErrNoTerminal) {
		t.Errorf("no terminal: %v", err)
	}
	if _, err := m.admit(t.Context(), path, hsmtest.NewScript(t, hsmtest.No())); !errors.Is(err, ErrUntrusted) ||
		!errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("no: %v", err)
	}
	p := hsmtest.NewScript(t, hsmtest.Yes())
	if got, err := m.admit(t.Context(), link, p); err != nil || got != path {
		t.Fatalf("yes: %q, %v", got, err)
	}
	if c := p.Prompts()[0].Confirm; c == nil || !strings.Contains(c.Detail, path) || c.DefaultYes {
		t.Errorf("the question is %+v", c)
	}
	if got, err := m.admit(t.Context(), path, nil); err != nil || got != path {
		t.Errorf("the second time: %q, %v", got, err)
	}
	check(t, os.WriteFile(path, []byte("other code"), 0o600))
	if _, err := m.admit(t.Context(), path, nil); !errors.Is(err, ErrUntrusted) {
		t.Errorf("other content: %v", err)
	}
	if _, err := m.admit(t.Context(), path+"x", nil); !errors.Is(err, hsm.ErrModule) {
		t.Errorf("missing: %v", err)
	}
}

// TestKnownLibrary: it is loaded by the name that it is given, unless that is a
// link that others could make lead elsewhere by then.
func TestKnownLibrary(t *testing.T) {
	path := library(t)
	m := Modules{Known: func(p string) bool {
		real, err := filepath.EvalSymlinks(p)
		return err == nil && real == path
	}}
	open := t.TempDir()
	links := map[string]string{path: path, filepath.Join(filepath.Dir(path), "link.so"): "",
		filepath.Join(open, "link.so"): path}
	for name, want := range links {
		if name != path {
			check(t, os.Symlink(path, name))
		}
		if err := os.Chmod(open, 0o777); err != nil { //nolint:gosec // the case under test
			t.Fatal(err)
		}
		if got, err := m.admit(t.Context(), name, nil); err != nil || got != cmp.Or(want, name) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := m.admit(t.Context(), "lib.so", nil); !errors.Is(err, hsm.ErrModule) {
		t.Errorf("a name without a folder: %q, %v", got, err)
	}
}

// TestLinkThatMoves: what is loaded is what was looked at, whatever the link says
// in between.
func TestLinkThatMoves(t *testing.T) {
	known, other, open := library(t), library(t), t.TempDir()
	link := filepath.Join(open, "link.so")
	if err := errors.Join(os.Symlink(other, link),
		os.Chmod(open, 0o777)); err != nil { //nolint:gosec // the case under test
		t.Fatal(err)
	}
	m := Modules{Known: func(p string) bool {
		check(t, errors.Join(os.Remove(link), os.Symlink(known, link)))
		real, err := filepath.EvalSymlinks(p)
		return err == nil && real == known
	}}
	if got, err := m.admit(t.Context(), link, nil); !errors.Is(err, ErrUntrusted) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestChangeableLibrary: what others can change is refused without a question.
func TestChangeableLibrary(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no mode bits on Windows")
	}
	path := library(t)
	dir := filepath.Dir(path)
	for name, change := range map[string]func() error{
		"file":   func() error { return os.Chmod(path, 0o620) },
		"folder": func() error { return errors.Join(os.Chmod(path, 0o600), os.Chmod(dir, 0o777)) },
	} {
		check(t, errors.Join(os.Chmod(path, 0o600), os.Chmod(dir, 0o700), change()))
		_, err := Modules{State: t.TempDir()}.admit(t.Context(), path, hsmtest.NewScript(t))
		if !errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), "others can change") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryWayToNameALibrary: nothing is loaded before it is admitted.
func TestEveryWayToNameALibrary(t *testing.T) {
	path := library(t)
	for _, config := range []map[string]string{
		{"pathLib": path, "slotId": "0", "objectId": "2"},
		{"uri": "pkcs11:token=a?module-path=" + path},
		{"uri": "pkcs11:token=a", "pathLib": path},
	} {
		b, err := wire.NewRequest(wire.KEP, config)
		check(t, err)
		r, err := wire.Parse(b)
		check(t, err)
		_, err = Serve(context.Background(), r, Options{Drivers: func(string) hsm.Drivers {
			t.Errorf("%v: drivers are made", config)
			return nil
		}})
		if !errors.Is(err, ErrUntrusted) {
			t.Errorf("%v: %v", config, err)
		}
	}
}
