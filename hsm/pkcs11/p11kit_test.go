//go:build linux && cgo

package pkcs11

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/need"
)

// p11Kit finds one of p11-kit's own modules.
func p11Kit(t *testing.T, name string) string {
	t.Helper()
	var paths []string
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"} {
		paths = append(paths, filepath.Join(dir, name), filepath.Join(dir, "pkcs11", name))
	}
	return need.File(t, paths...)
}

// viaProxy has p11-kit's proxy show the module of soft, and no other.
func viaProxy(t *testing.T, soft *hsmtest.SoftHSM) Module {
	t.Helper()
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	for name, text := range map[string]string{
		"pkcs11/pkcs11.conf":         "user-config: only\n",
		"pkcs11/modules/soft.module": "module: " + soft.Module + "\n",
	} {
		path := filepath.Join(config, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Module{Path: p11Kit(t, "p11-kit-proxy.so")}
}

// viaServer has a `p11-kit server` serve the tokens of soft.
func viaServer(t *testing.T, soft *hsmtest.SoftHSM) Module {
	t.Helper()
	client := p11Kit(t, "p11-kit-client.so")
	socket := filepath.Join(t.TempDir(), "socket")
	cmd := exec.Command(need.Program(t, "p11-kit"), "server", "-f", "-n", socket, "--provider", soft.Module, "pkcs11:")
	// It removes its socket when it ends, and starts a process for each client:
	// all of them end with its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the server was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); { // the server prints its address when it listens
		if _, address, ok := strings.Cut(lines.Text(), "P11_KIT_SERVER_ADDRESS="); ok {
			address, _, _ = strings.Cut(address, ";")
			return Module{Path: client, Env: map[string]string{"P11_KIT_SERVER_ADDRESS": strings.Trim(address, `"'`)}}
		}
	}
	t.Fatal("p11-kit server does not listen")
	return Module{}
}

// TestP11Kit runs the contract suite through p11-kit's client and proxy modules,
// which answer each call of C_GetFunctionList with another list.
func TestP11Kit(t *testing.T) {
	for name, via := range map[string]func(*testing.T, *hsmtest.SoftHSM) Module{"client": viaServer, "proxy": viaProxy} {
		t.Run(name, func(t *testing.T) {
			hsmtest.Run(t, hsmtest.Fixture{
				Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048},
				New: func(t *testing.T) hsmtest.Device {
					soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
					d := New(Options{Modules: []Module{via(t, soft)}, LockDir: filepath.Join(t.TempDir(), "lock")})
					t.Cleanup(func() {
						if err := d.Close(); err != nil {
							t.Errorf("close the driver: %v", err)
						}
					})
					return hsmtest.Device{Driver: d, Token: tokenURI(t, d, testLabel), PIN: testPIN, WrongPIN: "271828"}
				},
			})
		})
	}
}
