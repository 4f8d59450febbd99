//go:build linux

package scenarios

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
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
	must(t, syscall.Kill(old.PID, syscall.SIGKILL))
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
	must(t, err)
	shell, wrapped := filepath.Join(u.Dir, "shell"), filepath.Join(u.Dir, "wrapped")
	must(t, os.WriteFile(shell, []byte("#!/bin/sh\n"+u.Plugin+" \"$@\"\nexit $?\n"), 0o700))
	must(t, os.WriteFile(wrapped, []byte(strings.Replace(string(text), "command: "+u.Plugin, "command: "+shell, 1)), 0o600))
	for _, config := range []string{u.Kubeconfig, wrapped} {
		u.kubehsm("agent", "lock")
		s := u.terminal("/bin/sh", "-i")
		s.Type(`sh -c 'echo $$ >first; KUBECONFIG=` + config + ` exec kubectl get namespaces -o name'` + "\n")
		s.WaitFor(pinPrompt)
		b, err := os.ReadFile(filepath.Join(u.Dir, "first"))
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must(t, err)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
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
	must(t, err)
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

func TestStockKubectl(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("stock-kubectl")
	u.admin("create", "namespace", namespace)
	kubectl := func(args ...string) []string { return append([]string{"-n", namespace}, args...) }

	t.Run("get, create, delete", func(t *testing.T) {
		u := u.in(t)
		u.kubectl(kubectl("create", "configmap", "one", "--from-literal=a=b")...)
		if out := u.kubectl(kubectl("get", "configmap", "one", "-o", "jsonpath={.data.a}")...); out != "b" {
			t.Errorf("got %q", out)
		}
		u.kubectl(kubectl("delete", "configmap", "one")...)
	})
	t.Run("apply from a file", func(t *testing.T) {
		u := u.in(t)
		file := filepath.Join(u.Dir, "two.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(configMap, "NAME", "two", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := u.kubectl(kubectl("apply", "-f", file)...); out != "configmap/two created\n" {
			t.Errorf("apply: %q", out)
		}
	})
	t.Run("apply and create from standard input", func(t *testing.T) {
		u := u.in(t)
		for _, verb := range []string{"apply", "create"} {
			// More than a pipe holds, so that a byte taken from it would be missed.
			manifest := strings.NewReplacer("NAME", "from-stdin-"+verb, "b}",
				"b, filler: "+strings.Repeat("x", 100_000)+"}").Replace(configMap)
			args := kubectl(verb, "-f", "-")
			if verb == "apply" {
				args = append(args, "--server-side") // the client's way keeps a copy in an annotation
			}
			out := u.ok(u.Run(t.Context(), lab.Run{Stdin: manifest}, u.Cluster.Kubectl(), args...))
			if !strings.Contains(out, "configmap/from-stdin-"+verb) {
				t.Errorf("%s: %q", verb, out)
			}
		}
	})
	t.Run("watch", func(t *testing.T) {
		u := u.in(t)
		s := u.terminal(u.Cluster.Kubectl(), kubectl("get", "configmaps", "--watch", "-o", "name")...)
		s.WaitFor("configmap/two")
		u.admin("-n", namespace, "create", "configmap", "seen-by-watch")
		s.WaitFor("configmap/seen-by-watch")
		s.Press(term.CtrlC)
		s.Exit()
	})
	t.Run("forbidden stays forbidden", func(t *testing.T) {
		u := u.in(t)
		res := u.ran(u.Kubectl(t.Context(), "get", "nodes"))
		if res.Code != 1 || !strings.Contains(res.Stderr, `User "jane" cannot list resource "nodes"`) {
			t.Error(res)
		}
	})
	t.Run("protocols", func(t *testing.T) {
		u := u.in(t)
		ca := u.kubectl("config", "view", "--raw", "-o", "go-template={{range .clusters}}{{if eq .name \""+enrolled+
			"\"}}{{index .cluster \"certificate-authority-data\" | base64decode}}{{end}}{{end}}")
		caFile := filepath.Join(u.Dir, "bridge-ca.pem")
		if err := os.WriteFile(caFile, []byte(ca), 0o600); err != nil {
			t.Fatal(err)
		}
		client := u.client(t, caFile, u.credential(t))
		for i, offered := range [][]string{{"h2", "http/1.1"}, {"h2"}} {
			client.CloseIdleConnections()
			client.Transport.(*http.Transport).TLSClientConfig.NextProtos = offered
			resp, err := client.Get(u.server(enrolled) + "/version")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.ProtoMajor != i+1 || resp.StatusCode != http.StatusOK {
				t.Errorf("to %v the bridge answers %s %s", offered, resp.Proto, resp.Status)
			}
		}
	})
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
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "namespace/default") {
			said, _ := os.ReadFile(strings.Replace(out, "out.", "err.", 1))
			t.Errorf("%s: %q, %s", filepath.Base(out), b, said)
		}
	}
	if got := u.agentStatus(); got.Signatures != 1 {
		t.Errorf("%d signatures", got.Signatures)
	}
}
