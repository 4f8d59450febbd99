//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
)

// p11Client are the places of p11-kit's client module.
var p11Client = []string{"/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so",
	"/usr/lib/aarch64-linux-gnu/pkcs11/p11-kit-client.so",
	"/usr/lib64/pkcs11/p11-kit-client.so", "/usr/lib/pkcs11/p11-kit-client.so"}

// serveToken serves the lab's token at a socket, with a `p11-kit server`, and returns what
// kills that with all that serve its clients.
func (u *user) serveToken(socket string) (kill func()) {
	u.t.Helper()
	cmd := exec.Command(need.Program(u.t, "p11-kit"), "server", "-f", "-n", socket, "--provider", u.Soft.Module, "pkcs11:")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "SOFTHSM2_CONF="+u.Soft.Conf)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		u.t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the server may have ended
			_ = cmd.Wait()
		}
		ended = true
	}
	u.t.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); { // the server prints its address when it listens
		if strings.Contains(lines.Text(), "P11_KIT_SERVER_ADDRESS=") {
			return kill
		}
	}
	u.t.Fatal("p11-kit server does not listen")
	return kill
}

// TestForwardedToken: a token that arrives by p11-kit's server over a socket is enrolled, and
// kubectl signs in by it. When the server is killed that is said, with its address, and when
// it is back the PIN unlocks the token again.
func TestForwardedToken(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	socket := filepath.Join(u.Dir, "hsm.sock")
	config := fmt.Sprintf("onlyModules: true\nmodules:\n- path: %s\n  env: {P11_KIT_SERVER_ADDRESS: 'unix:path=%s'}\n",
		need.File(t, p11Client...), socket)
	if err := os.WriteFile(filepath.Join(u.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	noServer := func() {
		t.Helper()
		res := u.ran(u.Kubehsm(t.Context(), "token", "list"))
		if words := res.Stdout + res.Stderr; !strings.Contains(words, "no p11-kit server answers at "+socket) ||
			!strings.Contains(words, "start `p11-kit server` again") || strings.Contains(words, lab.Token+" ") {
			t.Errorf("without the server: %s", res)
		}
	}
	noServer()
	kill := u.serveToken(socket)
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

	kill()
	u.kubehsm("agent", "lock")
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "unlock", enrolled))
	if res.Code == 0 || !strings.Contains(res.Stderr, "no p11-kit server answers at "+socket) {
		t.Errorf("unlock without the server: %s", res)
	}
	noServer()
	res = u.ran(u.Kubectl(t.Context(), "get", "namespaces"))
	if res.Code == 0 || !strings.Contains(res.Stderr, "no p11-kit server answers at "+socket) {
		t.Errorf("kubectl without the server: %s", res)
	}

	u.serveToken(socket)
	u.unlock()
	u.kubectl("get", "namespaces")
}
