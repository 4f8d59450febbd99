//go:build linux

package externalsigner

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestStreams: a command with several requests needs one signature, and so does what
// kubectl does over connections of its own kind, which reaches the pod.
func TestStreams(t *testing.T) {
	p := newPerson(t)
	must.OK(t, p.Cluster.RunPod(t.Context(), "default", "web"))
	uri, err := p.key(hsm.ECDSAP256)
	must.OK(t, err)
	starts := p.spy()
	p.configure(map[string]string{"uri": uri.String(), "pin": lab.PIN})
	file := filepath.Join(p.Dir, "file")
	must.OK(t, os.WriteFile(file, []byte("carried over\n"), 0o600))
	spdy := []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"}
	for name, env := range map[string][]string{"WebSocket": nil, "SPDY": spdy} {
		for _, c := range []struct {
			args []string
			says string
		}{
			{[]string{"get", "pods,configmaps,secrets", "-o", "name"}, "pod/web\n"},
			{[]string{"exec", "web", "--", "echo", "heard"}, "heard\n"},
			{[]string{"attach", "web"}, "attached"},
			{[]string{"cp", file, "web:copied-" + name}, ""},
			{[]string{"exec", "web", "--", "cat", "copied-" + name}, "carried over\n"},
		} {
			before := starts()
			res := p.run(env, c.args...)
			if res.Code != 0 || !strings.Contains(res.Stdout, c.says) {
				t.Errorf("%s: %v: %s", name, c.args, res)
			}
			if n := starts() - before; n != 2 { // the certificate, a signature
				t.Errorf("%s: %v: the signer was started %d times, want 2", name, c.args, n)
			}
		}
		before := starts()
		p.forward(env)
		if n := starts() - before; n != 2 {
			t.Errorf("%s: port-forward: the signer was started %d times, want 2", name, n)
		}
	}
	w := term.Run(t, term.Options{Path: programs.Kubectl, Args: []string{"get", "configmaps", "-o", "name", "--watch"},
		Dir: p.Dir, Env: p.Env(), Columns: 120, Rows: 30})
	for _, name := range []string{"watched-1", "watched-2"} {
		if err := p.Cluster.Apply(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+
			", namespace: default}}"); err != nil {
			t.Fatal(err)
		}
		w.WaitFor("configmap/" + name)
	}
	w.Press(term.CtrlC)
	w.Exit()
}

// forward forwards a port and fetches something through it.
func (p *person) forward(env []string) {
	p.t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "through the pod")
	}))
	defer web.Close()
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	must.OK(p.t, err)
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.Kubectl, "port-forward", "pod/web", ":"+port)
	cmd.Env = append(p.Env(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	must.OK(p.t, err)
	must.OK(p.t, cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }() // interrupted above
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.t.Fatalf("port-forward says %q: %v", line, err)
	}
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	resp, err := http.Get("http://" + address)
	must.OK(p.t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "through the pod" {
		p.t.Errorf("through the forwarded port: %q, %v", b, err)
	}
}
