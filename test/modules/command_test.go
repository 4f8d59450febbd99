//go:build linux && cgo

package modules

import (
	"errors"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/badlib"
)

// TestCommandedLibrary: a library misbehaves at the very point that a test names, from
// its next call on, and no longer than it is told to.
func TestCommandedLibrary(t *testing.T) {
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "good", PIN: "2468"})
	t.Setenv(badlib.Real, soft.Module)
	path := badlib.Make(t, "tame")["tame"]
	c := p11.New(path)
	if c == nil {
		t.Fatal("it cannot be loaded")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Initialize())
	defer func() { must(c.Finalize()) }()
	all, err := c.GetSlotList(true)
	must(err)
	slot := all[0]
	session, err := c.OpenSession(slot, p11.CKF_SERIAL_SESSION)
	must(err)
	calls := map[string]func() error{
		"list":    func() error { _, err := c.GetSlotList(true); return err },
		"token":   func() error { _, err := c.GetTokenInfo(slot); return err },
		"session": func() error { _, err := c.OpenSession(slot, p11.CKF_SERIAL_SESSION); return err },
		"state":   func() error { _, err := c.GetSessionInfo(session); return err },
		"login":   func() error { return errors.Join(c.Login(session, p11.CKU_USER, "2468"), c.Logout(session)) },
		"find": func() error {
			return errors.Join(c.FindObjectsInit(session, nil), c.FindObjectsFinal(session))
		},
	}
	for point, call := range calls {
		badlib.Do(t, path, "slow-nothing", "fail-"+point)
		for other, call := range calls {
			err := call()
			if failed := errors.Is(err, p11.Error(p11.CKR_DEVICE_ERROR)); failed != (other == point) {
				t.Errorf("fail-%s: %s: %v", point, other, err)
			}
		}
		badlib.Do(t, path)
		must(call())
	}
	badlib.Do(t, path, "gone")
	if n, err := c.GetSlotList(true); err != nil || len(n) != 0 {
		t.Errorf("gone: slots %v, %v", n, err)
	}
	if err := calls["token"](); !errors.Is(err, p11.Error(p11.CKR_TOKEN_NOT_PRESENT)) {
		t.Errorf("gone: %v", err)
	}
	badlib.Do(t, path, "lose-sessions")
	if err := calls["state"](); !errors.Is(err, p11.Error(p11.CKR_SESSION_HANDLE_INVALID)) {
		t.Errorf("lost sessions: %v", err)
	}
	session, err = c.OpenSession(slot, p11.CKF_SERIAL_SESSION)
	must(err)
	must(calls["state"]())
}
