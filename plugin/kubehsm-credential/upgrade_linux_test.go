package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
)

var must = need.NoError

// TestUpgrade: a program whose file an upgrade replaces, renames or takes away while it starts still executes the
// kubehsm in its folder, with its arguments and exit code.
func TestUpgrade(t *testing.T) {
	built := filepath.Join(t.TempDir(), "built")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, upgrade := range map[string]func(path string) error{
		"nothing":  func(string) error { return nil },
		"replaced": func(path string) error { return os.Rename(path+".new", path) },
		"renamed":  func(path string) error { return os.Rename(path, path+".old") },
		"removed":  os.Remove,
	} {
		path := filepath.Join(t.TempDir(), "kubehsm-credential")
		script := "#!/bin/sh\necho \"$0 $#: $*\"\nexit 37\n"
		must(t, errors.Join(os.Link(built, path), os.WriteFile(path+".new", nil, 0o700),
			os.WriteFile(filepath.Join(filepath.Dir(path), "kubehsm"), []byte(script), 0o700)))
		running, err := os.Open(path)
		must(t, err)
		defer running.Close()
		must(t, upgrade(path))
		cmd := exec.Command("/proc/self/fd/3", "credential", "a b", "")
		cmd.ExtraFiles = []*os.File{running}
		out, _ := cmd.CombinedOutput()
		want := fmt.Sprintf("%s 3: credential a b \n", filepath.Join(filepath.Dir(path), "kubehsm"))
		if string(out) != want || cmd.ProcessState.ExitCode() != 37 {
			t.Errorf("%s: exit code %d, %q, want %q", name, cmd.ProcessState.ExitCode(), out, want)
		}
	}
}
