//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
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
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{window: script, config: string(before) + "pinentry: " + window + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(config, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := kubectl(); res.Code != 0 || !strings.Contains(res.Stdout, "namespace/default") {
		t.Errorf("with pinentry: %s", res)
	}
	said, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(said), "GETPIN"); n != 1 || !strings.Contains(string(said), enrolled) {
		t.Errorf("asked %d times:\n%s", n, said)
	}
	if res := kubectl(); res.Code != 0 { // and now nobody need be asked
		t.Error(res)
	}
}

// TestInTmux: the prompt, the PIN, and what kubectl prints, in a pane.
func TestInTmux(t *testing.T) {
	t.Parallel()
	program := need.Program(t, "tmux")
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "lock")
	tmux := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, append([]string{"-S", filepath.Join(u.Dir, "tmux"), "-f", "/dev/null"}, args...)...)
		cmd.Env, cmd.Stdin = u.Env(), strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %s: %v: %s", args[0], err, out)
		}
		return string(out)
	}
	tmux("", "new-session", "-d", "-x", "100", "-y", "30", "kubectl get namespaces -o name; echo code $?; read line")
	t.Cleanup(func() { tmux("", "kill-server") })
	var pane string
	shows := func(what string) {
		t.Helper()
		if !poll.Within(poll.Patience, func() bool {
			pane = tmux("", "capture-pane", "-p")
			return strings.Contains(pane, what)
		}) {
			t.Fatalf("%q is not in the pane:\n%s", what, pane)
		}
	}
	shows("PIN:") // the question's last line
	tmux(lab.PIN, "load-buffer", "-")
	tmux("", "paste-buffer", "-d")
	tmux("", "send-keys", "Enter")
	shows("code 0")
	if !strings.Contains(pane, "namespace/default") || strings.Contains(pane, lab.PIN) || strings.Contains(pane, pinPrompt) {
		t.Errorf("the pane:\n%s", pane)
	}
}
