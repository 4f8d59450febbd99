//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {a: b}\n"

func TestOneSignatureForAHundredCommands(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop") // the count is from a cold start
	u.unlock()
	for range 100 {
		u.kubectl("get", "namespaces", "-o", "name")
	}
	if s := u.agentStatus(); s.Signatures != 1 {
		t.Errorf("%d signatures and %d connections for 100 commands", s.Signatures, s.Dials)
	}
}

func TestCrashedAgentHeals(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	old := u.agentStatus()
	must.OK(t, syscall.Kill(old.PID, syscall.SIGKILL))
	s := u.terminal(u.Cluster.Kubectl(), "get", "namespaces", "-o", "name")
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("namespace/default")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if now := u.agentStatus(); now.PID == old.PID || !now.Running {
		t.Errorf("the agent is %+v, was %+v", now, old)
	}
}

// TestKilledKubectl: a kubectl that is killed while it asks for the PIN leaves nothing behind that
// the next one has to wait for, also where a shell that runs on has started the plugin.
func TestKilledKubectl(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	text, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	shell, wrapped := filepath.Join(u.Dir, "shell"), filepath.Join(u.Dir, "wrapped")
	must.OK(t, os.WriteFile(shell, []byte("#!/bin/sh\n"+u.Plugin+" \"$@\"\nexit $?\n"), 0o700))
	must.OK(t, os.WriteFile(wrapped, []byte(strings.Replace(string(text), "command: "+u.Plugin, "command: "+shell, 1)), 0o600))
	for _, config := range []string{u.Kubeconfig, wrapped} {
		u.kubehsm("agent", "lock")
		s := u.terminal("/bin/sh", "-i")
		s.Type(`sh -c 'echo $$ >first; KUBECONFIG=` + config + ` exec kubectl get namespaces -o name'` + "\n")
		s.WaitFor(pinPrompt)
		b, err := os.ReadFile(filepath.Join(u.Dir, "first"))
		must.OK(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must.OK(t, err)
		must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
		s.WaitFor("Killed")
		s.Type("clear; kubectl get namespaces -o name\n")
		s.WaitGone("Killed")
		s.Answer(pinPrompt, lab.PIN)
		s.WaitFor("namespace/default")
		s.Type("exit\n")
		s.Exit()
	}
}

func TestStandardInputIsLeftToKubectl(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("piped-stdin")
	u.admin("create", "namespace", namespace)
	u.kubehsm("agent", "lock")
	in, w, err := os.Pipe()
	must.OK(t, err)
	s := term.Run(t, term.Options{Path: u.Cluster.Kubectl(), Args: []string{"-n", namespace, "apply", "-f", "-"},
		Dir: u.Dir, Env: u.Env(), Columns: 100, Rows: 30, Stdin: in})
	in.Close()
	if _, err := w.WriteString(strings.Replace(configMap, "NAME", "piped", 1)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("configmap/piped created")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(string(s.Raw()), pinPrompt); n != 1 {
		t.Errorf("the PIN was asked for %d times", n)
	}
}

func TestOneKeyTwoEnrollments(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	first := u.enroll()
	second := u.enroll("--name", "second", "--context", lab.Context, "--key", first.Key)
	if second.Fingerprint != first.Fingerprint || second.Name != "second" {
		t.Errorf("the second enrollment is %+v", second)
	}
	for _, context := range []string{enrolled, "second"} {
		if out := u.kubectl("--context", context, "auth", "whoami", "-o",
			"jsonpath={.status.userInfo.username}"); out != "jane" {
			t.Errorf("%s is %q", context, out)
		}
	}
	if out := u.kubectl("config", "current-context"); strings.TrimSpace(out) != enrolled ||
		!strings.Contains(strings.Join(second.Notes, "\n"), `the current context stays "`+enrolled+`"`) {
		t.Errorf("%q is current; it says %q", out, second.Notes)
	}
	if a, b := u.server(enrolled), u.server("second"); a == b {
		t.Errorf("both contexts have the server %s: kubectl would mix up its caches", a)
	}
}

// server is that of a cluster in the kubeconfig.
func (u *user) server(cluster string) string {
	u.t.Helper()
	return u.kubectl("config", "view", "-o", "jsonpath={.clusters[?(@.name=='"+cluster+"')].cluster.server}")
}

func TestTwentyAtOnceAskOnce(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "stop")
	s := u.sh(`for i in $(seq 20); do kubectl get namespaces -o name >out.$i 2>err.$i & done; wait; echo all are done`)
	s.Answer(pinPrompt, lab.PIN)
	s.WaitFor("all are done")
	s.Exit()
	if n := strings.Count(string(s.Raw()), pinPrompt); n != 1 {
		t.Errorf("the PIN was asked for %d times", n)
	}
	outs, err := filepath.Glob(filepath.Join(u.Dir, "out.*"))
	if err != nil || len(outs) != 20 {
		t.Fatalf("%d outputs: %v", len(outs), err)
	}
	for _, out := range outs {
		b, err := os.ReadFile(out)
		must.OK(t, err)
		if !strings.Contains(string(b), "namespace/default") {
			said, _ := os.ReadFile(strings.Replace(out, "out.", "err.", 1))
			t.Errorf("%s: %q, %s", filepath.Base(out), b, said)
		}
	}
	if got := u.agentStatus(); got.Signatures != 1 {
		t.Errorf("%d signatures", got.Signatures)
	}
}
