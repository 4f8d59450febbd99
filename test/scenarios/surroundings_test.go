//go:build linux

package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestCalledByAWindow: a program with windows has a PATH with nothing in it and no
// terminal. Where pinentry is configured it asks for the PIN; where it is not
// kubectl fails and says what to do.
func TestCalledByAWindow(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop")
	surroundings := lab.Run{Env: []string{"PATH=/nonexistent", "DISPLAY=:9"}}
	kubectl := func() lab.Result {
		return u.ran(u.Run(t.Context(), surroundings, u.Cluster.Kubectl(), "get", "namespaces", "-o", "name"))
	}
	if res := kubectl(); res.Code != 1 || !strings.Contains(res.Stderr, "kubehsm unlock") {
		t.Errorf("without pinentry: %s", res)
	}
	u.kubehsm("agent", "stop") // forgets that there was nobody

	window, asked := filepath.Join(u.Dir, "pinentry"), filepath.Join(u.Dir, "asked")
	script := fmt.Sprintf("#!/bin/sh\necho OK\nwhile read -r line; do\n  echo \"$line\" >>'%s'\n  case $line in GETPIN*) echo 'D %s' ;; esac\n  echo OK\n  [ \"$line\" != BYE ] || exit 0\ndone\n",
		asked, lab.PIN)
	config := filepath.Join(u.Home, "config.yaml")
	before, err := os.ReadFile(config)
	must.OK(t, err)
	for path, content := range map[string]string{window: script, config: string(before) + "pinentry: " + window + "\n"} {
		must.OK(t, os.WriteFile(path, []byte(content), 0o700))
	}
	must.OK(t, os.Chmod(config, 0o600))
	if res := kubectl(); res.Code != 0 || !strings.Contains(res.Stdout, "namespace/default") {
		t.Errorf("with pinentry: %s", res)
	}
	said, err := os.ReadFile(asked)
	must.OK(t, err)
	if n := strings.Count(string(said), "GETPIN"); n != 1 || !strings.Contains(string(said), enrolled) {
		t.Errorf("asked %d times:\n%s", n, said)
	}
	if res := kubectl(); res.Code != 0 { // and now nobody need be asked
		t.Error(res)
	}
}
