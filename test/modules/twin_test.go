//go:build linux && cgo

package modules

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/hsm/pkcs11/p11kit"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// TestCardIsListedOnce: three drivers reach one card. It is listed as PIV, and
// the modules' own URIs still open it.
func TestCardIsListedOnce(t *testing.T) {
	modules := pkcs11.New(pkcs11.Options{
		Modules: []pkcs11.Module{ykcs11(t), opensc(t)}, LockDir: filepath.Join(t.TempDir(), "lock"),
	})
	lab := vcard.ForTest(t)
	card := vcard.New(vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321})
	fill(t, card)
	lab.Insert(t, 0, card)
	all := hsm.Drivers{modules, piv.New(piv.Options{})}
	t.Cleanup(func() { all.Close() })
	seen, err := modules.List(t.Context())
	if err != nil || len(seen.Tokens) != 2 {
		t.Fatalf("the modules see %+v, %v (problems %v), want the card twice", seen.Tokens, err, seen.Problems)
	}
	l, err := all.List(t.Context())
	must.OK(t, err)
	if len(l.Tokens) != 1 || l.Tokens[0].Scheme != hsm.SchemePIV || len(l.Problems) != 0 {
		t.Errorf("listed %+v, problems %v; want the card once and nothing of the empty reader", l.Tokens, l.Problems)
	}
	for _, info := range seen.Tokens {
		tok, err := all.Open(t.Context(), info.URI())
		if err != nil {
			t.Errorf("open %s: %v", info.URI(), err)
			continue
		}
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTokenIsListedOnce: a library is reached directly, as a remote module, and by a server
// that the environment names. Its token is listed once, and opens by all of its URIs.
func TestTokenIsListedOnce(t *testing.T) {
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "good", PIN: "2468"})
	s := p11server.Start(t, soft.Module, filepath.Join(t.TempDir(), "server"))
	configured(t, map[string]string{
		"a": "module: " + soft.Module, "b": "remote: |p11-kit remote " + soft.Module, "c": "remote: " + s.Address,
		"d": "remote: ssh host", "e": "module: p11-kit-trust.so\ntrust-policy: yes",
	})
	t.Setenv(p11kit.ServerAddress, s.Address)
	modules := discovering(t)
	seen := labelled(t, modules, "good")
	if len(seen) != 4 {
		t.Fatalf("the libraries see %+v, want the token four times", seen)
	}
	l, err := hsm.Drivers{modules}.List(t.Context())
	must.OK(t, err)
	blank := 0
	for _, info := range l.Tokens {
		if !info.Initialized {
			blank++
		} else if info.Label == "good" && info.Module.Path != soft.Module {
			t.Errorf("listed too: %+v, %+v", info, info.Module)
		} else if info.Label != "good" {
			t.Errorf("what is %+v?", info)
		}
	}
	named := slices.ContainsFunc(l.Problems, func(p hsm.Problem) bool { return strings.HasSuffix(p.Source, "/d.module") })
	if blank != 1 || !named {
		t.Errorf("%d blank tokens of %+v, problems %v", blank, l.Tokens, l.Problems)
	}
	for _, info := range seen {
		tok, err := modules.Open(t.Context(), info.URI())
		if err != nil {
			t.Errorf("open %s: %v", info.URI(), err)
			continue
		}
		if err := errors.Join(tok.Unlock(t.Context(), hsmtest.Typing(t, "2468")), tok.Close()); err != nil {
			t.Errorf("%s: %v", info.URI(), err)
		}
	}
}

// TestForwardedCardIsListedOnce: a card in this machine's reader arrives by a server as well.
func TestForwardedCardIsListedOnce(t *testing.T) {
	lab := vcard.ForTest(t)
	card := vcard.New(vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321})
	fill(t, card)
	lab.Insert(t, 0, card)
	s := p11server.Start(t, p11server.Library(t, "opensc-pkcs11.so"), filepath.Join(t.TempDir(), "server"))
	t.Setenv(p11kit.ServerAddress, s.Address)
	modules := driver(t, pkcs11.Module{Path: p11server.Client(t)})
	if l, err := modules.List(t.Context()); err != nil || len(l.Tokens) != 1 {
		t.Fatalf("by the server: %+v, %v", l, err)
	}
	all := hsm.Drivers{modules, piv.New(piv.Options{})}
	t.Cleanup(func() { all.Close() })
	views, problems, err := all.Views(t.Context(), 0)
	if err != nil || len(views) != 1 || views[0].Info.Scheme != hsm.SchemePIV {
		t.Errorf("%+v, %v, %v", views, problems, err)
	}
}
