package flowtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// NewEnv returns what use cases work with: folders of their own, which are made,
// an empty kubeconfig and the drivers.
func NewEnv(t testing.TB, drivers ...hsm.Driver) *env.Env {
	t.Helper()
	root := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: root}[k] })
	if err != nil {
		t.Fatal(err)
	}
	e := &env.Env{
		Dirs: dirs, Drivers: drivers, Executable: "/usr/local/bin/kubehsm", Version: "v0.0.0-test",
		Kubeconfig: filepath.Join(filepath.Dir(root), "kubeconfig"),
	}
	for _, err := range []error{dirs.Prepare(), home.MakeDir(e.ProgressDir()), os.WriteFile(e.Kubeconfig, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return e
}
