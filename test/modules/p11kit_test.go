//go:build linux && cgo

package modules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/p11server"
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
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".module"), []byte(text), 0o600))
	}
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
	must.OK(t, err)
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
				s := p11server.Start(t, soft.Module, filepath.Join(t.TempDir(), "socket"))
				return driver(t, pkcs11.Module{Path: p11server.Client(t),
					Env: map[string]string{"P11_KIT_SERVER_ADDRESS": s.Address}})
			}},
		{"proxy", "SoftHSM 2 by p11-kit's proxy", "pkcs11: p11-kit-proxy",
			func(t *testing.T, soft *hsmtest.SoftHSM) *pkcs11.Driver {
				configured(t, map[string]string{"soft": "module: " + soft.Module + "\n"})
				return driver(t, pkcs11.Module{Path: p11server.Library(t, "p11-kit-proxy.so")})
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
			tokens.Record(t, way.title, way.by, r)
		})
	}
}

// forwarded is the module that reaches the tokens of another, m, by p11-kit's server.
func forwarded(t *testing.T, m pkcs11.Module) pkcs11.Module {
	t.Helper()
	s := p11server.Start(t, m.Path, filepath.Join(t.TempDir(), "socket"))
	return pkcs11.Module{Path: p11server.Client(t), Env: map[string]string{"P11_KIT_SERVER_ADDRESS": s.Address}}
}

// TestForwardedModules runs the contract suite on the tokens of other makers' libraries, forwarded
// by p11-kit's server.
func TestForwardedModules(t *testing.T) {
	device := func(pin string, m func(*testing.T) pkcs11.Module) func(*testing.T) hsmtest.Device {
		return func(t *testing.T) hsmtest.Device {
			d := driver(t, forwarded(t, m(t)))
			return hsmtest.Device{Driver: d, Token: only(t, d).URI(), PIN: pin, WrongPIN: "975310"}
		}
	}
	for _, row := range []struct {
		name, title string
		fixture     hsmtest.Fixture
	}{
		{"opencryptoki", "openCryptoki, forwarded by p11-kit's server", hsmtest.Fixture{
			Algorithms: []hsm.Algorithm{hsm.RSA2048},
			New:        device(ockPIN, func(t *testing.T) pkcs11.Module { return pkcs11.Module{Path: blankToken(t)} }),
		}},
		{"tpm", "TPM 2.0 (swtpm), forwarded by p11-kit's server", hsmtest.Fixture{
			Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048}, New: device(tpmPIN, tpm),
		}},
		{"opensc", "virtual YubiKey 5.4.3, OpenSC, forwarded by p11-kit's server", hsmtest.Fixture{
			Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048}, ReadOnly: true, Has: hsmtest.Unplug,
			New: overCard(func(t *testing.T) pkcs11.Module { return forwarded(t, opensc(t)) }),
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tokens.Record(t, row.title, "pkcs11: p11-kit-client", hsmtest.Run(t, row.fixture))
		})
	}
}
