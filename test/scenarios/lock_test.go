//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// TestLockCutsStreams: after a lock nothing goes on that the token signed in for,
// whatever the stream travels by, and nothing begins without the PIN.
func TestLockCutsStreams(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("locked")
	u.admin("create", "namespace", namespace)
	if err := u.Cluster.RunPod(t.Context(), namespace, "web"); err != nil {
		t.Fatal(err)
	}
	u.admin("-n", namespace, "exec", "web", "--", "sh", "-c", "echo logged >log")
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
		s := u.sh(env + "kubectl -n " + namespace + " " + command)
		s.WaitFor(begun)
		streams[command] = s
	}
	u.kubehsm("agent", "lock")
	for command, s := range streams {
		s.Exit() // by itself
		if strings.HasPrefix(command, "get ") && !strings.Contains(s.Output(), "closed by the agent") {
			t.Errorf("%s does not say why it ended:\n%s", command, s.Output())
		}
	}
	st, err := u.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Upstreams) != 0 || len(st.Sessions) != 0 {
		t.Errorf("left: %+v, %+v", st.Upstreams, st.Sessions)
	}
	if res := u.ran(u.Kubectl(t.Context(), "get", "namespaces")); res.Code != 1 ||
		!strings.Contains(res.Stderr, "kubehsm unlock") {
		t.Errorf("without the PIN: %s", res)
	}
}
