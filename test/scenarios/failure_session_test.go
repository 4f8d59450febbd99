//go:build linux

package scenarios

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
)

func TestInterruptedPrompt(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "lock")
	state, kubeconfig, keys := u.files(u.enrollments()...), u.files(u.Kubeconfig), u.files(u.keys()...)
	for _, command := range []string{"kubehsm unlock " + enrolled, "kubectl get namespaces"} {
		t.Run(command, func(t *testing.T) {
			u := u.in(t)
			u.kubehsm("agent", "stop") // forgets the refusal too
			// The shell outlives ctrl-c, as one that a person types in does.
			s := u.sh("trap : INT; " + command + "; echo code $?; read line; echo $line")
			s.WaitFor(pinPrompt)
			must.OK(t, s.TypeSecret("739"))
			s.Press(term.CtrlC)
			s.WaitFor("code 130")
			s.WaitUntil("the terminal is as before", func(term.Frame) bool { return s.Cooked() })
			s.Type("typed after it\r")
			// The echo, and what was read; the plugin, which kubectl does not wait for, may
			// say its word between them.
			s.WaitUntil("what is typed is read", func(f term.Frame) bool {
				return strings.Count(f.Text(),
					"typed after it") == 2
			})
			s.Exit()
		})
	}
	u.unchanged(state, u.enrollments()...)
	u.unchanged(kubeconfig, u.Kubeconfig)
	u.unchanged(keys, u.keys()...)
	u.unlock()
	u.kubectl("get", "namespaces")
}

// expire puts a certificate in place of the user's that the cluster signed for
// the same key and that ended an hour ago.
func (u *user) expire(t *testing.T) {
	t.Helper()
	chains, err := filepath.Glob(filepath.Join(u.Home, "state", "certificates", "*", enrolled+".pem"))
	if err != nil || len(chains) != 1 {
		t.Fatalf("certificates %q: %v", chains, err)
	}
	b, err := os.ReadFile(chains[0])
	must.OK(t, err)
	valid, err := csr.ParseCertificate(b)
	must.OK(t, err)
	der, err := u.Cluster.SignClient(valid.Leaf.PublicKey, valid.Leaf.Subject.CommonName, valid.Leaf.Subject.Organization,
		time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour))
	must.OK(t, err)
	expired := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must.OK(t, os.WriteFile(chains[0], expired, 0o600))
	record := filepath.Join(u.Home, "state", "enrolling", enrolled+".json")
	if b, err = os.ReadFile(record); err != nil {
		t.Fatal(err)
	}
	var j map[string]any
	must.OK(t, json.Unmarshal(b, &j))
	j["certificate"] = expired
	if b, err = json.Marshal(j); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.WriteFile(record, b, 0o600))
}

func TestNoTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	u.kubehsm("agent", "lock")
	state, kubeconfig := u.files(u.enrollments()...), u.files(u.Kubeconfig)
	res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, u.Binary, "credential", "--enrollment", enrolled))
	u.wantFailure(res, 5, "kubehsm unlock", "no terminal to ask on")
	if res := u.ran(u.Kubectl(t.Context(), "get", "namespaces")); res.Code != 1 ||
		!strings.Contains(res.Stderr, "kubehsm unlock") {
		t.Errorf("kubectl: %s", res)
	}
	u.unchanged(state, u.enrollments()...)
	u.unchanged(kubeconfig, u.Kubeconfig)

	t.Run("held by a pager", func(t *testing.T) {
		u := u.in(t)
		// less puts the terminal into raw mode while kubectl, before the pipe, asks.
		s := u.sh(`stty raw -echo; env '` + execInfo + `' kubehsm credential --enrollment ` + enrolled +
			` 2>err; echo "code $?"; stty sane`)
		s.Exit()
		if !s.Frame().Contains("code 5") || strings.Contains(string(s.Raw()), pinPrompt) {
			t.Errorf("the screen:\n%s", s.Screen())
		}
		said, err := os.ReadFile(filepath.Join(u.Dir, "err"))
		must.OK(t, err)
		u.wantWords(string(said), "kubehsm unlock", "no terminal to ask on")
	})
	u.unlock()
	u.kubectl("get", "namespaces")
}

func TestAPIServerDown(t *testing.T) {
	c := controlplane.StartForTest(t, controlplane.Options{})
	u := newUser(t, lab.Options{Cluster: c})
	u.enroll()
	u.kubehsm("agent", "stop")
	must.OK(t, c.StopAPIServer(t.Context()))
	state, kubeconfig := u.files(u.enrollments()...), u.files(u.Kubeconfig)
	t.Run("kubectl", func(t *testing.T) {
		u := u.in(t)
		s := u.terminal(u.Cluster.Kubectl(), "get", "namespaces")
		if code := s.Exit(); code == 0 {
			t.Error("kubectl succeeded")
		}
		if strings.Contains(string(s.Raw()), pinPrompt) {
			t.Errorf("a PIN was asked for in vain:\n%s", s.Screen())
		}
	})
	t.Run("credential", func(t *testing.T) {
		u := u.in(t)
		res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, u.Binary, "credential", "--enrollment", enrolled))
		u.wantFailure(res, 1, "", strings.TrimPrefix(c.Server(), "https://"))
	})
	t.Run("enroll", func(t *testing.T) {
		u := u.in(t)
		res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, u.enrollArgs("--name", "other", "--context", lab.Context)...))
		u.wantFailure(res, 1, "", strings.TrimPrefix(c.Server(), "https://"))
	})
	u.unchanged(state, u.enrollments()...)
	u.unchanged(kubeconfig, u.Kubeconfig)
	must.OK(t, c.StartAPIServer(t.Context()))
	u.unlock()
	u.kubectl("get", "namespaces")
	t.Run("restart while the agent is warm", func(t *testing.T) {
		u := u.in(t)
		must.OK(t, c.RestartAPIServer(t.Context()))
		u.kubectl("get", "namespaces")
		u.kubectl("get", "namespaces")
	})
}

func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	r := u.enroll()
	u.kubehsm("agent", "stop")
	u.expire(t)
	kubeconfig := u.files(u.Kubeconfig)
	s := u.terminal(u.Cluster.Kubectl(), "get", "namespaces")
	if code := s.Exit(); code == 0 {
		t.Error("kubectl succeeded with an expired certificate")
	}
	if strings.Contains(string(s.Raw()), pinPrompt) {
		t.Errorf("a PIN was asked for in vain:\n%s", s.Screen())
	}
	res := u.ran(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, u.Binary, "credential", "--enrollment", enrolled))
	u.wantFailure(res, 1, "kubehsm enroll", "certificate", "not valid")
	u.unchanged(kubeconfig, u.Kubeconfig)

	again := u.enroll()
	if again.Fingerprint != r.Fingerprint || again.Request == r.Request || !again.NotAfter.After(time.Now()) {
		t.Errorf("a new certificate: %+v", again)
	}
	u.kubectl("get", "namespaces")
	u.unchanged(kubeconfig, u.Kubeconfig)
}
