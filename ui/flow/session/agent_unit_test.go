package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// TestAgentUnitOfAnOddPath: what no service file can hold is refused with what to do.
func TestAgentUnitOfAnOddPath(t *testing.T) {
	for _, launchd := range []bool{false, true} {
		a := Agent{&env.Env{Executable: "/opt/a\nb/kubehsm"}}
		if file, _, err := a.AgentUnit(launchd); err == nil || hint.Of(err) == "" {
			t.Errorf("launchd %v: %v\n%s", launchd, err, file)
		}
		a.Env.Executable = "/opt/kubehsm"
		if _, _, err := a.AgentUnit(launchd); err != nil {
			t.Error(err)
		}
	}
}

// TestAgentUnitOutlivesAnUpgrade: where a link on the PATH leads to the program in a folder of its version, as krew and
// Homebrew install it, the unit names the link.
func TestAgentUnitOutlivesAnUpgrade(t *testing.T) {
	dir := t.TempDir()
	program, link := filepath.Join(dir, "kubehsm"), filepath.Join(dir, "bin", "kubehsm")
	must.OK(t, errors.Join(os.WriteFile(program, nil, 0o700), os.Mkdir(filepath.Dir(link), 0o700),
		os.Symlink(program, link)))
	t.Setenv("PATH", filepath.Dir(link))
	for _, launchd := range []bool{false, true} {
		file, _, err := Agent{&env.Env{Executable: program}}.AgentUnit(launchd)
		if err != nil || !strings.Contains(string(file), link) {
			t.Errorf("launchd %v: %v\n%s", launchd, err, file)
		}
	}
}
