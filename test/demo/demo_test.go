//go:build linux

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// TestUnattended does what `make demo` and `make demo-down` do where there is
// no terminal, twice, and looks at what is left.
func TestUnattended(t *testing.T) {
	d := newDemo(t)
	first := d.run(t, "up")
	for _, want := range []string{
		tokenLabel, "auth whoami", trialUser, "kube-system",
		"generated there, sensitive, not extractable", "401 Unauthorized", "Done.",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the first run does not say %q:\n%s", want, first)
		}
	}
	second := d.run(t, "up")
	if was, is := d.keyLine(t, first), d.keyLine(t, second); is != was {
		t.Errorf("the second run made another key: %s, then %s", was, is)
	}
	d.ends(t)
}

// demo is a built demo program with a folder and a home of its own.
type demo struct {
	program, root, dir, home string
}

func newDemo(t *testing.T) *demo {
	t.Helper()
	need.Program(t, "softhsm2-util")
	if _, current, err := controlplane.Built(t.Context(), false); err != nil {
		t.Fatal(err)
	} else if !current {
		need.Missing(t, "the control plane is not built: run `make cluster`")
	}
	root, err := controlplane.Checkout()
	must.OK(t, err)
	work, err := os.MkdirTemp("", "kd") // short: a socket's path is in it
	must.OK(t, err)
	d := &demo{program: filepath.Join(work, "demo"), root: root, dir: filepath.Join(work, "d"),
		home: filepath.Join(work, "home")}
	t.Cleanup(func() {
		if _, err := os.Stat(d.dir); err == nil {
			t.Log(d.run(t, "down"))
		}
		if err := os.RemoveAll(work); err != nil {
			t.Error(err)
		}
	})
	must.OK(t, os.Mkdir(d.home, 0o700))
	build := exec.Command("go", "build", "-buildvcs=false", "-o", d.program, "./test/demo")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the demo: %v\n%s", err, out)
	}
	return d
}

// env is this process's, but with an empty home: only Go's caches stay known.
func (d *demo) env(t *testing.T) []string {
	t.Helper()
	env := append(os.Environ(), "HOME="+d.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_CACHE_HOME=",
		"XDG_RUNTIME_DIR=")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOENV"} {
		out, err := exec.Command("go", "env", name).Output()
		must.OK(t, err)
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}

func (d *demo) run(t *testing.T, verb string) string {
	t.Helper()
	cmd := exec.Command(d.program, verb, d.dir)
	cmd.Dir, cmd.Env = d.root, d.env(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("demo %s: %v\n%s", verb, err, out)
	}
	return string(out)
}

// keyLine is the line that names the key in the token.
func (d *demo) keyLine(t *testing.T, output string) string {
	t.Helper()
	for line := range strings.Lines(output) {
		if strings.Contains(line, "the key in the token") {
			return line
		}
	}
	t.Fatalf("no key is named:\n%s", output)
	return ""
}

// ends ends the trial, and looks for what is left.
func (d *demo) ends(t *testing.T) {
	t.Helper()
	d.run(t, "down")
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	d.checkProcesses(t)
	err := filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.HasPrefix(path, filepath.Join(d.home, ".config", "go")) {
			t.Errorf("the trial left %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// checkProcesses looks for processes that name the trial's folder.
func (d *demo) checkProcesses(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must.OK(t, err)
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(d.dir)) {
			t.Errorf("the trial left process %s: %s", file, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
}
