//go:build linux

package p11server

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// Server is a running `p11-kit server`.
type Server struct {
	// Address is what P11_KIT_SERVER_ADDRESS says to its clients.
	Address string
	// Kill ends it with all that serve its clients. The socket is free again.
	Kill func()
}

// Start serves the tokens of a library at a socket until the test ends, with env beside this
// process's environment.
func Start(t testing.TB, library, socket string, env ...string) Server {
	t.Helper()
	cmd := exec.Command(need.Program(t, "p11-kit"), "server", "-f", "-n", socket, "--provider", library, "pkcs11:")
	cmd.Env = append(os.Environ(), env...)
	// It starts a process for each client: all of them end with its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	s := Server{Kill: sync.OnceFunc(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill p11-kit's server: %v", err)
		}
		_ = cmd.Wait() // the server was killed
		if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})}
	t.Cleanup(s.Kill)
	for lines := bufio.NewScanner(out); lines.Scan(); { // the server prints its address when it listens
		if _, address, ok := strings.Cut(lines.Text(), "P11_KIT_SERVER_ADDRESS="); ok {
			address, _, _ = strings.Cut(address, ";")
			s.Address = strings.Trim(address, `"'`)
			return s
		}
	}
	t.Fatal("p11-kit server does not listen")
	return s
}

// Client is the path of p11-kit's client module.
func Client(t testing.TB) string {
	t.Helper()
	return Library(t, "p11-kit-client.so")
}

// Library is the path of the PKCS#11 library of that name, where distributions have it.
func Library(t testing.TB, name string) string {
	t.Helper()
	var paths []string
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"} {
		paths = append(paths, filepath.Join(dir, name), filepath.Join(dir, "pkcs11", name))
	}
	return need.File(t, paths...)
}
