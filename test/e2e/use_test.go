//go:build linux && cgo

package e2e

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestConsent: with the policy writes, reading is silent; what changes something
// is asked about on the terminal of its command, once, and on record.
func TestConsent(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.enroll()
	_, err := lab.Succeeded(p.KubehsmPIN(t.Context(), lab.PIN, "consent", "set", lab.Enrolled, "--policy", "writes", "--yes"))
	p.Must(err)
	namespace := unique("consent")
	p.Admin("create", "namespace", namespace)
	kubectl := "kubectl -n " + namespace + " "

	s := p.sh(kubectl + "get configmaps -o name && echo read; " + kubectl + "create configmap allowed; echo code $?")
	s.WaitFor("read", "create configmaps", `Namespace     "`+namespace+`"`, "Calls itself  kubectl", lab.Enrolled+" at 127.0.0.1:",
		consentPrompt)
	s.Type("y\r")
	s.WaitFor("configmap/allowed created", "code 0")
	s.Exit()
	if n := strings.Count(s.Output(), consentPrompt); n != 1 {
		t.Errorf("%d questions:\n%s", n, s.Output())
	}

	s = p.sh(kubectl + "delete configmap allowed; echo code $?")
	s.WaitFor("delete configmaps", `"allowed"`, consentPrompt)
	s.Type("n\r")
	s.WaitFor("(Forbidden)", "code 1")
	s.Exit()
	p.Admin("-n", namespace, "get", "configmap", "allowed")

	res, err := p.Kubectl(t.Context(), "-n", namespace, "create", "configmap", "unasked")
	if err != nil || res.Code != 1 || !strings.Contains(res.Stderr, "there is nobody to ask") {
		t.Errorf("without a terminal: %v, %s", err, res)
	}
	log := p.Do("audit", "-o", "json")
	for _, want := range []string{`create configmaps in \"` + namespace, `delete configmaps \"allowed\" in \"` + namespace} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in the audit log:\n%s", want, log)
		}
	}
}

// TestLockCutsStreams: after a lock nothing goes on that the token signed in for,
// whatever the stream travels by, and nothing begins without the PIN.
func TestLockCutsStreams(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.enroll()
	namespace := unique("locked")
	p.Admin("create", "namespace", namespace)
	p.Must(p.Cluster.RunPod(t.Context(), namespace, "web"))
	p.Admin("-n", namespace, "exec", "web", "--", "sh", "-c", "echo logged >log")
	streams := map[string]*term.Session{}
	for command, begun := range map[string]string{
		"get pods --watch": "Running",
		"logs -f web":      "logged",
		"exec -i web -- sh -c 'echo inside; exec cat'": "inside",
		"attach -i web":           "attached",
		"port-forward pod/web :9": "Forwarding from 127.0.0.1:",
		"exec -i web -- sh -c 'echo inside; exec cat' # SPDY": "inside",
	} {
		env := ""
		if strings.HasSuffix(command, "SPDY") {
			env = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false "
		}
		s := p.sh(env + "kubectl -n " + namespace + " " + command)
		s.WaitFor(begun)
		streams[command] = s
	}
	p.Do("agent", "lock")
	for command, s := range streams {
		s.Exit() // by itself
		if strings.HasPrefix(command, "get ") && !strings.Contains(s.Output(), "closed by the agent") {
			t.Errorf("%s does not say why it ended:\n%s", command, s.Output())
		}
	}
	status, err := p.Status(t.Context())
	p.Must(err)
	if len(status.Upstreams) != 0 || len(status.Sessions) != 0 {
		t.Errorf("left: %+v, %+v", status.Upstreams, status.Sessions)
	}
	res, err := p.Kubectl(t.Context(), "get", "namespaces")
	if err != nil || res.Code != 1 || !strings.Contains(res.Stderr, "kubehsm unlock") {
		t.Errorf("without the PIN: %v, %s", err, res)
	}
}
