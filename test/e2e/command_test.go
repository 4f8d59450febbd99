//go:build linux && cgo

package e2e

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/externalsigner/kit"
)

// TestCommandLine: from a token to a kubectl that works, with a wrong PIN on the
// way; then what daily use brings.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	before, err := os.ReadFile(p.Kubeconfig)
	p.Must(err)
	s, request := p.awaiting(wrongPIN, lab.PIN)
	if b, err := os.ReadFile(p.Kubeconfig); err != nil || string(b) != string(before) {
		t.Errorf("the kubeconfig has changed before there is a certificate: %v\n%s", err, b)
	}
	p.approve(request)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("Enrolled: authenticated as jane") || !s.Cooked() {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	after, err := os.ReadFile(p.Kubeconfig)
	p.Must(err)
	for line := range strings.Lines(string(before)) {
		if !strings.HasPrefix(line, "current-context:") && !strings.Contains(string(after), line) {
			t.Errorf("the kubeconfig lost %q", line)
		}
	}
	p.wantUser()
	if out := p.kubectl("--context", lab.Context, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != lab.Filer {
		t.Errorf("the old context is %q now", out)
	}
	p.holdsNowhere(lab.PIN)

	t.Run("locked", func(t *testing.T) {
		p := &person{p.In(t)}
		p.Do("agent", "lock")
		res, err := p.Kubectl(t.Context(), "get", "namespaces")
		if err != nil || res.Code != 1 || !strings.Contains(res.Stderr, "kubehsm unlock") {
			t.Errorf("without a terminal: %v, %s", err, res)
		}
		s := p.Terminal(nil, p.Cluster.Kubectl(), "get", "namespaces", "-o", "name")
		s.Answer(pinPrompt, wrongPIN)
		s.Answer("Wrong PIN", lab.PIN)
		s.WaitFor("namespace/default")
		if code := s.Exit(); code != 0 || !s.Cooked() {
			t.Errorf("exit code %d:\n%s", code, s.Output())
		}
	})
	t.Run("the token is pulled", func(t *testing.T) {
		p := &person{p.In(t)}
		p.Do("agent", "stop")
		plug := p.unplug()
		s := p.Terminal(nil, p.Cluster.Kubectl(), "get", "namespaces")
		if code := s.Exit(); code == 0 || !s.Frame().Contains("no such token") || s.Frame().Contains(pinPrompt) {
			t.Errorf("without the token: exit code %d:\n%s", code, s.Output())
		}
		plug()
		p.Do("agent", "stop") // SoftHSM2, unlike a reader, looks for tokens only once
		p.Must(p.Unlock(t.Context()))
		p.wantUser()
	})
	t.Run("as an external signer", p.testExternalSigner)
}

// testExternalSigner has a kubectl with the KEP's auth provider sign in by kubehsm.
func (p *person) testExternalSigner(t *testing.T) {
	p = &person{p.In(t)}
	kubectl, err := kit.BuildKubectl(t.Context(), t.TempDir())
	p.Must(err)
	var r struct{ Key string }
	p.json(&r, "enroll", "--name", lab.Enrolled, "--yes")
	p.Do("agent", "lock")
	p.Must(kit.Configure(p.Lab, map[string]string{"uri": r.Key, "pathExec": p.Binary}))
	s := p.Terminal(nil, kubectl, whoami...)
	s.Answer(pinPrompt, lab.PIN)
	if code := s.Exit(); code != 0 || !s.Frame().Contains(jane) {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
}

// TestDenied: the one who waits is told why, and can ask again with the same key.
func TestDenied(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	before, err := os.ReadFile(p.Kubeconfig)
	p.Must(err)
	s, request := p.awaiting(lab.PIN)
	p.asAdmin("csr", "deny", request, "--message", "who is jane?", "--yes")
	if code := s.Exit(); code != 1 || !strings.Contains(s.Output(), "denied") || !strings.Contains(s.Output(), "who is jane?") {
		t.Errorf("exit code %d:\n%s", code, s.Output())
	}
	if b, err := os.ReadFile(p.Kubeconfig); err != nil || string(b) != string(before) {
		t.Errorf("the kubeconfig has changed: %v\n%s", err, b)
	}
	var keys struct {
		Keys []struct{ Fingerprint string }
	}
	p.json(&keys, "key", "list")
	p.enroll()
	p.wantUser()
	first := keys.Keys
	p.json(&keys, "key", "list")
	if len(first) != 1 || len(keys.Keys) != 1 || keys.Keys[0] != first[0] {
		t.Errorf("the keys were %v and are %v", first, keys.Keys)
	}
}

// TestJoin: somebody without any access joins by a bootstrap token.
func TestJoin(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.Must(errors.Join(p.Cluster.PublishInfo(t.Context(), p.Cluster.Server()), p.ApplyRoles(t.Context(), "ticket")))
	p.Must(os.Remove(p.Kubeconfig))
	line := strings.Fields(p.asAdmin("bootstrap-token", "create", "--ttl", "1h", "--print-join-command"))
	if len(line) != 7 || line[0] != "kubehsm" || line[1] != "join" || line[3] != "--token" {
		t.Fatalf("the join command: %q", line)
	}
	name := unique("jane")
	res, err := p.KubehsmPIN(t.Context(), lab.PIN, append(line[1:], "--name", "joined", "--user", name,
		"--group", lab.DevelopersGroup, "--approve-with", p.Cluster.AdminKubeconfig(), "--yes", "-o", "json")...)
	p.Must(err)
	if res.Code != 0 || !strings.Contains(res.Stdout, name) ||
		!strings.Contains(res.Stderr, "warning: other users of this computer can read the bootstrap token") {
		t.Fatalf("it says %s", res)
	}
	if out := p.kubectl("--context", "joined", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != name {
		t.Errorf("kubectl is %q", out)
	}
	p.holdsNowhere(strings.Split(line[4], ".")[1])
}
