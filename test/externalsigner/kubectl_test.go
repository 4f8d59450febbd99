//go:build linux

package externalsigner

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
)

const pods = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere, namespace: default}
spec: {automountServiceAccountToken: false, containers: [{name: c, image: none}]}
`

// TestKubectl: every kind of key signs in, by TLS 1.3 and, at a server limited to it, TLS 1.2.
func TestKubectl(t *testing.T) {
	p := newPerson(t)
	must.OK(t, p.Cluster.Apply(t.Context(), pods))
	for _, a := range []hsm.Algorithm{hsm.RSA2048, hsm.ECDSAP256, hsm.ECDSAP384, hsm.Ed25519} {
		uri, err := p.key(a)
		must.OK(t, err)
		t.Run(string(a), func(t *testing.T) {
			p := &person{p.Lab, t}
			p.configure(map[string]string{"uri": uri.String(), "pin": lab.PIN})
			res := p.wantUser(string(a))
			if strings.Contains(res.Stderr, lab.PIN) || !strings.Contains(res.Stderr, "warning: the kubeconfig holds a PIN") {
				t.Errorf("stderr: %s", res.Stderr)
			}
			if res := p.kubectl("get", "pods", "-o", "name"); res.Stdout != "pod/nowhere\n" {
				t.Errorf("get: %s", res)
			}
			if user := p.tls12(); user != string(a) {
				t.Errorf("TLS 1.2: %q", user)
			}
		})
	}
}

// TestKubectlVersion: it says the version that its modules are of, as the
// cluster's kubectl does.
func TestKubectlVersion(t *testing.T) {
	p := newPerson(t)
	type version struct{ GitVersion, Major, Minor string }
	of := func(program string) version {
		t.Helper()
		var v struct{ ClientVersion version }
		out, err := exec.CommandContext(t.Context(), program, "version", "--client", "-o", "json").Output()
		if err == nil {
			err = json.Unmarshal(out, &v)
		}
		if err != nil {
			t.Fatalf("%s version: %v\n%s", program, err, out)
		}
		return v.ClientVersion
	}
	if ours, theirs := of(programs.Kubectl), of(p.Cluster.Kubectl()); ours != theirs {
		t.Errorf("it is %+v, the cluster's %+v", ours, theirs)
	}
}

// tls12 asks a server that speaks TLS 1.2 alone who we are: the API server speaks 1.3 with
// every client that can.
func (p *person) tls12() string {
	p.t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	res := p.kubectl("get", "--raw", "/", "--server", s.URL, "--insecure-skip-tls-verify")
	if res.Code != 0 {
		p.t.Errorf("TLS 1.2: %s", res)
	}
	return res.Stdout
}

// TestAtTheTerminal: the signer asks there, while kubectl waits.
func TestAtTheTerminal(t *testing.T) {
	p := newPerson(t)
	uri, err := p.key(hsm.ECDSAP256)
	must.OK(t, err)
	p.configure(map[string]string{"uri": uri.String()})
	s := term.Run(t, term.Options{Path: programs.Kubectl, Args: []string{"get", "namespaces", "-o", "name"}, Dir: p.Dir,
		Env: p.Env(), Columns: 120, Rows: 30})
	s.WaitFor("for: kubectl-externalsigner get namespaces")
	s.Answer("needs its PIN", lab.PIN)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("namespace/default") {
		t.Errorf("exit code %d:\n%s", code, s.Screen())
	}

	starts := p.spy()
	p.configure(map[string]string{"uri": uri.String()})
	res := p.kubectl("get", "namespaces")
	if res.Code != 1 || !strings.Contains(res.Stderr, "no terminal to ask on") ||
		!strings.Contains(res.Stderr, "it failed: no terminal to ask on") || strings.Contains(res.Stderr, "exit status") {
		t.Errorf("without a terminal: %s", res)
	}
	if n := starts(); n != 2 {
		t.Errorf("without a terminal the signer was started %d times, want 2", n)
	}
}

// TestUnanswered: kubectl gives up with the reason, and the terminal is as it was.
func TestUnanswered(t *testing.T) {
	p := newPerson(t)
	uri, err := p.key(hsm.ECDSAP256)
	must.OK(t, err)
	p.configure(map[string]string{"uri": uri.String()})
	s := term.Run(t, term.Options{Path: programs.Kubectl, Args: []string{"get", "namespaces"}, Dir: p.Dir, Env: p.Env(),
		Columns: 200, Rows: 40})
	s.WaitFor("needs its PIN")
	if code := s.Exit(); code != 1 || !s.Frame().Contains("within the 10s that a TLS handshake may take") {
		t.Errorf("exit code %d:\n%s", code, s.Screen())
	}
	if !s.Cooked() {
		t.Error("the terminal was left without echo")
	}
}
