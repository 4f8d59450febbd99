//go:build linux && cgo

package modules

import (
	"crypto"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestGoneWithItsDaemon: a token whose daemon has died is not called unlocked any more, and
// it is found out within moments, unless the token signs without the daemon.
func TestGoneWithItsDaemon(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (d hsm.Driver, pin string, kill func()){
		"pkcsslotd": func(t *testing.T) (hsm.Driver, string, func()) {
			module := blankToken(t)
			return driver(t, pkcs11.Module{Path: module}), ockPIN, func() { killOurs(t, "pkcsslotd") }
		},
		"p11-kit server": func(t *testing.T) (hsm.Driver, string, func()) {
			soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "far", PIN: "2468"})
			s := p11server.Start(t, soft.Module, filepath.Join(t.TempDir(), "server"))
			t.Setenv("P11_KIT_SERVER_ADDRESS", s.Address)
			return driver(t, pkcs11.Module{Path: p11server.Client(t)}), "2468", s.Kill
		},
		"pcscd": func(t *testing.T) (hsm.Driver, string, func()) {
			lab := vcard.ForTest(t)
			lab.Insert(t, 0, vcard.New(vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321}))
			d := piv.New(piv.Options{})
			t.Cleanup(func() { _ = d.Close() }) // the daemon has gone
			return d, vcard.DefaultPIN, lab.CrashDaemon
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, pin, kill := start(t)
			u := only(t, d).URI()
			withoutDaemon := name == "pkcsslotd" // The library does the work itself.
			var key hsm.URI
			if withoutDaemon {
				key = generated(t, d, u, pin)
			}
			gone := make(chan struct{})
			h := token.NewHolders(token.Options{Tokens: worker.InProcess(hsm.Drivers{d}),
				Removed: func(*token.Held, bool) { close(gone) }}).Of(u)
			must.OK(t, h.Unlock(t.Context(), token.Use{Ask: ask.From(hsmtest.Typing(t, pin))}, func(error) {}))
			defer func() { _ = h.Lock("") }() // the worker has gone: an error is expected
			if s := h.State(false); !s.Unlocked || s.Problem != nil || !s.Open {
				t.Fatalf("unlocked: %+v", s)
			}
			kill()
			if withoutDaemon {
				if s, err := signed(t, h, key); err != nil || !s.Unlocked {
					t.Errorf("%+v, and its signature: %v", s, err)
				}
				return
			}
			poll.Until(t, "the token is not called unlocked", func() bool { return !h.State(false).Unlocked })
			select {
			case <-gone: // nothing stands on the token
				return
			default:
			}
			if s := h.State(false); s.Problem == nil || !s.Open {
				t.Errorf("%+v", s)
			}
		})
	}
}

// generated returns a new key of the token.
func generated(t *testing.T, d hsm.Driver, u hsm.URI, pin string) hsm.URI {
	t.Helper()
	tok, err := d.Open(t.Context(), u)
	must.OK(t, err)
	defer tok.Close()
	slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Algorithm: hsm.RSA2048, Label: "key"},
		hsmtest.Typing(t, pin))
	must.OK(t, err)
	return slot.URI
}

// signed tries the key, and tells how the token is afterwards.
func signed(t *testing.T, h *token.Held, key hsm.URI) (token.State, error) {
	t.Helper()
	s, err := h.Signer(t.Context(), token.Use{}, key, nil)
	if err == nil {
		digest := sha256.Sum256(nil)
		_, err = s.Sign(nil, digest[:], crypto.SHA256)
	}
	return h.State(false), err
}

// killOurs kills the child of this process that has that name.
func killOurs(t *testing.T, name string) {
	t.Helper()
	out, err := exec.Command(need.Program(t, "pgrep"), "-x", "-P", strconv.Itoa(os.Getpid()), name).Output()
	must.OK(t, err)
	for pid := range strings.FieldsSeq(string(out)) {
		must.OK(t, exec.Command("kill", "-9", pid).Run())
	}
}
