//go:build linux

package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestForwardedToken: a token that arrives by p11-kit's server over a socket is enrolled, and
// kubectl signs in by it. When the server is killed the token is locked, which is said, with the
// server's address, and when it is back kubectl asks for the PIN once, and nothing has to be done
// before.
func TestForwardedToken(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	socket := filepath.Join(u.Dir, "hsm.sock")
	config := fmt.Sprintf("onlyModules: true\nmodules:\n- path: %s\n  env: {P11_KIT_SERVER_ADDRESS: 'unix:path=%s'}\n",
		p11server.Client(t), socket)
	must.OK(t, os.WriteFile(filepath.Join(u.Home, "config.yaml"), []byte(config), 0o600))
	noServer := func() {
		t.Helper()
		res := u.ran(u.Kubehsm(t.Context(), "token", "list"))
		if words := res.Stdout + res.Stderr; !strings.Contains(words, "no p11-kit server answers at "+socket) ||
			!strings.Contains(words, "start `p11-kit server` again") || strings.Contains(words, lab.Token+" ") {
			t.Errorf("without the server: %s", res)
		}
	}
	noServer()
	serve := func() p11server.Server {
		return p11server.Start(t, u.Soft.Module, socket, "SOFTHSM2_CONF="+u.Soft.Conf)
	}
	server := serve()
	if list := u.kubehsm("token", "list"); !strings.Contains(list, lab.Token) {
		t.Errorf("listed: %s", list)
	}
	if info := u.kubehsm("token", "info"); !strings.Contains(info, "by unix:path="+socket) {
		t.Errorf("shown: %s", info)
	}
	u.enroll()
	u.unlock()
	if got := u.kubectl("auth", "whoami"); !strings.Contains(got, lab.User) {
		t.Errorf("kubectl is %s", got)
	}

	watch := u.terminal(u.Cluster.Kubectl(), "get", "namespaces", "--watch")
	watch.WaitFor("kube-system")
	server.Kill()
	watch.WaitFor("the connection to the token's server was lost")
	watch.Exit()
	poll.Until(t, "the audit log tells why", func() bool {
		return strings.Contains(u.kubehsm("audit"), "disconnected")
	})
	if status := u.kubehsm("agent", "status"); !strings.Contains(status, "the connection to the token's server was lost") {
		t.Errorf("status: %s", status)
	}
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "unlock", enrolled))
	if res.Code == 0 || !strings.Contains(res.Stderr, "no p11-kit server answers at "+socket) {
		t.Errorf("unlock without the server: %s", res)
	}
	noServer()
	res = u.ran(u.Kubectl(t.Context(), "get", "namespaces"))
	if res.Code == 0 || !strings.Contains(res.Stderr, "no p11-kit server answers at "+socket) {
		t.Errorf("kubectl without the server: %s", res)
	}

	server = serve()
	s := u.terminal(u.Cluster.Kubectl(), "get", "namespaces")
	s.Answer(pinPrompt, lab.PIN)
	if code := s.Exit(); code != 0 || !s.Frame().Contains("kube-system") {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	raw := string(s.Raw())
	if n := strings.Count(raw, pinPrompt); n != 1 ||
		!strings.Contains(raw, "The token was locked: the connection to the") {
		t.Errorf("the PIN was asked for %d times:\n%s", n, raw)
	}

	server.Kill() // the server is back before anybody looks
	serve()
	u.unlock()
	u.kubectl("get", "namespaces")
}
