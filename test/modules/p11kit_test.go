//go:build linux && cgo

package modules

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
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// configured makes these .module files (the keys are their names) the whole of p11-kit's
// configuration.
func configured(t *testing.T, files map[string]string) {
	t.Helper()
	vcard.Private(t)
	const dir = "/usr/share/p11-kit/modules"
	overlay(t, "", dir)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".module"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// p11Server is a running `p11-kit server`.
type p11Server struct {
	address string
	kill    func() // ends all that serve its clients, too
}

// serve serves the tokens of a library at a socket.
func serve(t *testing.T, library, socket string) p11Server {
	t.Helper()
	cmd := exec.Command(need.Program(t, "p11-kit"), "server", "-f", "-n", socket, "--provider", library, "pkcs11:")
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
	ended := false
	s := p11Server{kill: func() {
		if ended {
			return
		}
		ended = true
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the server was killed
	}}
	t.Cleanup(s.kill)
	for lines := bufio.NewScanner(out); lines.Scan(); { // the server prints its address when it listens
		if _, address, ok := strings.Cut(lines.Text(), "P11_KIT_SERVER_ADDRESS="); ok {
			address, _, _ = strings.Cut(address, ";")
			s.address = strings.Trim(address, `"'`)
			return s
		}
	}
	t.Fatal("p11-kit server does not listen")
	return s
}

// discovering is a driver for what p11-kit's configuration names, with well-known places.
func discovering(t *testing.T) *pkcs11.Driver {
	t.Helper()
	return closed(t, pkcs11.New(pkcs11.Options{Discover: true, LockDir: filepath.Join(t.TempDir(), "lock")}))
}

// labelled returns the URI of the driver's tokens with a label.
func labelled(t *testing.T, d hsm.Driver, label string) (found []hsm.TokenInfo) {
	t.Helper()
	l, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range l.Tokens {
		if info.Label == label {
			found = append(found, info)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no token %q in %+v, problems %v", label, l.Tokens, l.Problems)
	}
	return found
}

// TestP11Kit runs the contract suite through p11-kit: by its client from a server, by its
// proxy, and on a module that its configuration has as a remote one. Client and proxy
// answer each call of C_GetFunctionList with another list.
func TestP11Kit(t *testing.T) {
	const label = "far"
	for _, way := range []struct {
		name, title, by string
		driver          func(*testing.T, *hsmtest.SoftHSM) *pkcs11.Driver
	}{
		{"client", "SoftHSM 2, forwarded by p11-kit's server", "pkcs11: p11-kit-client",
			func(t *testing.T, soft *hsmtest.SoftHSM) *pkcs11.Driver {
				s := serve(t, soft.Module, filepath.Join(t.TempDir(), "socket"))
				return driver(t, pkcs11.Module{Path: library(t, "p11-kit-client.so"),
					Env: map[string]string{"P11_KIT_SERVER_ADDRESS": s.address}})
			}},
		{"proxy", "SoftHSM 2 by p11-kit's proxy", "pkcs11: p11-kit-proxy",
			func(t *testing.T, soft *hsmtest.SoftHSM) *pkcs11.Driver {
				configured(t, map[string]string{"soft": "module: " + soft.Module + "\n"})
				return driver(t, pkcs11.Module{Path: library(t, "p11-kit-proxy.so")})
			}},
		{"remote", "SoftHSM 2, a remote: module of p11-kit", "pkcs11: p11-kit-client",
			func(t *testing.T, soft *hsmtest.SoftHSM) *pkcs11.Driver {
				need.Program(t, "p11-kit")
				configured(t, map[string]string{"soft": "module: " + soft.Module + "\ndisable-in: kubehsm\n",
					"far": "remote: |p11-kit remote " + soft.Module + "\n"})
				return discovering(t)
			}},
	} {
		t.Run(way.name, func(t *testing.T) {
			r := hsmtest.Run(t, hsmtest.Fixture{
				Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048},
				New: func(t *testing.T) hsmtest.Device {
					soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: label, PIN: "314159"})
					d := way.driver(t, soft)
					found := labelled(t, d, label)
					if len(found) != 1 {
						t.Fatalf("found %+v", found)
					}
					return hsmtest.Device{Driver: d, Token: found[0].URI(), PIN: "314159", WrongPIN: "271828"}
				},
			})
			tokens.Record(t, "p11-kit-"+way.name, way.title, way.by, r)
		})
	}
}
