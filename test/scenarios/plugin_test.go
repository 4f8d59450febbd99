//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestPluginProgram: kubectl's entry names kubehsm-credential, which executes the kubehsm in its own folder
// and no other one, with its arguments, exit code and terminal.
func TestPluginProgram(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	text, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	if !strings.Contains(string(text), "command: "+u.Plugin+"\n") || filepath.Base(u.Plugin) != execcredential.Program {
		t.Fatalf("the entry does not name kubehsm-credential:\n%s", text)
	}
	run := func(args ...string) lab.Result {
		return u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, u.Plugin, append([]string{"credential"}, args...)...))
	}
	if res := run("--enrollment", enrolled); res.Code != 0 || !strings.Contains(res.Stdout, "clientKeyData") {
		t.Errorf("the agent is warm: %s", res)
	}
	if res := run("--enrollment", "nope"); res.Code != 1 || !strings.Contains(res.Stderr, "no such enrollment") {
		t.Errorf("another enrollment: %s", res)
	}
	if res := run("--bad"); res.Code != 2 || !strings.Contains(res.Stderr, "run `kubehsm credential --help`") {
		t.Errorf("a bad argument: %s", res)
	}
	t.Run("an entry of before", func(t *testing.T) {
		u := u.in(t)
		before := strings.Replace(string(text), "command: "+u.Plugin+"\n", "command: "+u.Binary+"\n", 1)
		must.OK(t, os.WriteFile(u.Kubeconfig, []byte(before), 0o600))
		if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
			t.Errorf("kubectl is %q", out)
		}
		if res := u.ran(u.Kubehsm(t.Context(), "doctor")); !strings.Contains(res.Stdout, "kubectl starts all of kubehsm") {
			t.Errorf("doctor does not offer the change: %s", res)
		}
		u.kubehsm("kubeconfig", "set", enrolled, "--yes")
		now, err := os.ReadFile(u.Kubeconfig)
		must.OK(t, err)
		if string(now) != string(text) {
			t.Errorf("the entry is\n%s\nand was\n%s", now, text)
		}
	})
	t.Run("no kubehsm in its folder", func(t *testing.T) {
		u := u.in(t)
		alone := filepath.Join(t.TempDir(), execcredential.Program)
		must.OK(t, lab.LinkOrCopy(u.Plugin, alone)) // kubehsm is on the PATH
		res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, alone, "credential", "--enrollment", enrolled))
		u.wantFailure(res, 1, "", filepath.Join(filepath.Dir(alone), "kubehsm")+" is missing")
		if !strings.Contains(res.Stderr, "hint: ") {
			t.Errorf("no hint: %s", res)
		}
		must.OK(t, os.Symlink(alone, filepath.Join(filepath.Dir(alone), "kubehsm"))) // must not execute itself for ever
		res = u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, alone, "credential", "--enrollment", enrolled))
		u.wantFailure(res, 1, "", "is kubehsm-credential under another name")
	})
	t.Run("by a link", func(t *testing.T) {
		u := u.in(t)
		link := filepath.Join(t.TempDir(), execcredential.Program)
		must.OK(t, os.Symlink(u.Plugin, link))
		u.kubehsm("agent", "lock")
		res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, link, "credential", "--enrollment", enrolled))
		u.wantFailure(res, 5, "", "no terminal to ask on") // kubehsm has nobody to ask
	})
}
