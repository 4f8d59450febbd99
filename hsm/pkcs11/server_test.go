//go:build linux && cgo

package pkcs11

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/p11server"
)

// TestServerLostAndBack: a p11-kit server that has ended is named with its address, its token
// says that the connection was lost, and when the server is back, the same driver reaches its
// token again.
func TestServerLostAndBack(t *testing.T) {
	client := p11server.Client(t)
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	socket := filepath.Join(t.TempDir(), "socket")
	t.Setenv("P11_KIT_SERVER_ADDRESS", "unix:path="+socket)
	d := New(Options{Modules: []Module{{Path: client}}, LockDir: filepath.Join(t.TempDir(), "lock")})
	d.pause = 0
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	unlock := func() (hsm.Token, error) {
		tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: testLabel})
		if err != nil {
			return nil, err
		}
		return tok, tok.Unlock(t.Context(), hsmtest.Typing(t, testPIN))
	}
	lost := func() {
		t.Helper()
		l, err := d.List(t.Context())
		if err != nil || len(l.Tokens) != 0 || len(l.Problems) != 1 || !errors.Is(l.Problems[0].Err, hsm.ErrModule) ||
			!strings.Contains(l.Problems[0].Err.Error(), socket) || hinting.Of(l.Problems[0].Err) == "" {
			t.Errorf("without the server: %+v, %v", l, err)
		}
		if _, err := unlock(); err == nil || !strings.Contains(err.Error(), socket) {
			t.Errorf("unlocked without the server: %v", err)
		}
	}
	lost()
	for range 2 {
		server := p11server.Start(t, soft.Module, socket)
		tok, err := unlock()
		must.OK(t, err)
		if info, err := tok.Info(t.Context()); err != nil || info.Module.Server != "unix:path="+socket {
			t.Errorf("%+v, %v", info.Module, err)
		}
		server.Kill()
		if _, err := tok.Info(t.Context()); !errors.Is(err, hsm.ErrDisconnected) || !strings.Contains(err.Error(), socket) {
			t.Errorf("what it says of itself without the server: %v", err)
		}
		if tok.Unlocked() {
			t.Error("it is unlocked without the server")
		}
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
		lost()
	}
}

// TestLocalBeforeForwarded: a token of this machine is opened, and listed first, though a
// server, which a module before its own reaches, has one that says the same of itself.
func TestLocalBeforeForwarded(t *testing.T) {
	client := p11server.Client(t)
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	socket := filepath.Join(t.TempDir(), "socket")
	t.Setenv("P11_KIT_SERVER_ADDRESS", "unix:path="+socket)
	p11server.Start(t, soft.Module, socket)
	d := New(Options{Modules: []Module{{Path: client}, {Path: soft.Module}}, LockDir: filepath.Join(t.TempDir(), "lock")})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	l, err := d.List(t.Context())
	must.OK(t, err)
	at := slices.IndexFunc(l.Tokens, func(info hsm.TokenInfo) bool { return info.Label == testLabel })
	if at < 0 || l.Tokens[at].IsForwarded() || !slices.ContainsFunc(l.Tokens, hsm.TokenInfo.IsForwarded) {
		t.Fatalf("%+v, %v", l.Tokens, l.Problems)
	}
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: testLabel, Serial: l.Tokens[at].Serial})
	must.OK(t, err)
	info, err := tok.Info(t.Context())
	if err := errors.Join(err, tok.Close()); err != nil || info.IsForwarded() {
		t.Errorf("%+v, %v", info.Module, err)
	}
}
