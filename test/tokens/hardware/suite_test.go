//go:build cgo

package hardware

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// secrets are those of a token that is not reset.
type secrets struct{ pin, management string }

// suite runs the contract suite on a token that may be erased. One that can be reset is
// reset before each part and at the end, and wrong PINs are typed. Another one is used
// behind the guard, with ask's secrets, and no wrong PIN is typed.
func suite(t *testing.T, d hsm.Driver, info hsm.TokenInfo, ask func() secrets) hsmtest.Results {
	t.Helper()
	if info.Can.Reset {
		return onReset(t, d, info)
	}
	slots := freeSlots(t, d, info)
	s := ask()
	verify(t, d, info, s.pin)
	return guardedSuite(t, d, info, slots, s)
}

// reset resets the token and returns it as it is then: a card without a serial has another
// identity.
func reset(t *testing.T, d hsm.Driver, u hsm.URI) hsm.TokenInfo {
	t.Helper()
	tok, err := d.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	if err := tok.Reset(t.Context(), hsmtest.NewScript(t, hsmtest.Yes())); err != nil {
		t.Fatalf("reset: %v", err)
	}
	info, err := tok.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func onReset(t *testing.T, d hsm.Driver, info hsm.TokenInfo) hsmtest.Results {
	t.Helper()
	at := reset(t, d, info.URI())
	can, cannot, noOrigin := tryKeys(t, d, at)
	f := hsmtest.Fixture{Algorithms: can, NoDelete: !at.Can.Delete, NoOrigin: noOrigin}
	if at.PIN.Retries == 3 { // As the suite wants it, which blocks the PIN then.
		f.Has = hsmtest.Tries
	}
	f.New = func(t *testing.T) hsmtest.Device {
		at = reset(t, d, at.URI())
		device := hsmtest.Device{Driver: d, Token: at.URI(), PIN: vcard.DefaultPIN, WrongPIN: "654321",
			Others: ownManagement(t, d, at), Slots: []string{"9a", "9c", "9d"}}
		if f.Has == hsmtest.Tries {
			device.Tries = func() int { return tries(t, d, device.Token) }
		}
		return device
	}
	r := hsmtest.Run(t, f)
	for _, a := range cannot {
		r.Algorithms[a] = hsmtest.Cannot
	}
	reset(t, d, at.URI())
	return r
}

// ownManagement gives a card that was reset a management key of its own, as the suite wants
// to see it asked for.
func ownManagement(t *testing.T, d hsm.Driver, info hsm.TokenInfo) map[hsm.PINKind]string {
	t.Helper()
	if !info.Can.ManagementKey {
		return nil
	}
	tok, err := d.Open(t.Context(), info.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	key, err := tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{}, hsmtest.NewScript(t))
	if err != nil {
		t.Fatalf("management key: %v", err)
	}
	defer key.Zero()
	return map[hsm.PINKind]string{hsm.ManagementKey: hex.EncodeToString(key.Bytes())}
}

// tries are the card's own count.
func tries(t *testing.T, d hsm.Driver, u hsm.URI) int {
	t.Helper()
	tok, err := d.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	info, err := tok.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.PIN.Retries
}

// tryKeys makes a key of each algorithm on a card that was reset. It tells which the card
// makes, and whether it tells later where a key was made.
func tryKeys(t *testing.T, d hsm.Driver, info hsm.TokenInfo) (can, cannot []hsm.Algorithm, noOrigin bool) {
	t.Helper()
	tok, err := d.Open(t.Context(), info.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	p := hsmtest.Typing(t, vcard.DefaultPIN)
	if err := tok.Unlock(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, a := range []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048, hsm.ECDSAP384, hsm.Ed25519, hsm.RSA3072, hsm.RSA4096} {
		slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9a", Algorithm: a, Overwrite: true}, p)
		switch {
		case errors.Is(err, hsm.ErrRemoved), errors.Is(err, hsm.ErrBusy):
			t.Fatal(err)
		case err != nil:
			t.Logf("%s: %v", a, err)
			cannot = append(cannot, a)
			continue
		}
		can = append(can, a)
		if slot, err = tok.Slot(t.Context(), slot.URI); err != nil {
			t.Fatal(err)
		}
		noOrigin = noOrigin || slot.Key.Origin == ""
	}
	if len(can) == 0 {
		t.Fatal("the card makes no key that kubehsm can use")
	}
	return can, cannot, noOrigin
}

// freeSlots returns three retired slots of a card that are empty, nil for other tokens.
func freeSlots(t *testing.T, d hsm.Driver, info hsm.TokenInfo) (free []string) {
	t.Helper()
	if !info.Kind().HasSlots() {
		return nil
	}
	tok, err := d.Open(t.Context(), info.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	all, err := tok.Slots(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, s := range all {
		taken[s.ID] = taken[s.ID] || occupied(s)
	}
	for n := 0x95; n >= 0x82 && len(free) < 3; n-- {
		if id := fmt.Sprintf("%x", n); !taken[id] {
			free = append(free, id)
		}
	}
	if len(free) < 3 {
		t.Fatalf("only %d retired slots are empty, three are needed", len(free))
	}
	return free
}

// guardedSuite runs the suite behind the guard.
func guardedSuite(t *testing.T, d hsm.Driver, info hsm.TokenInfo, slots []string, s secrets) hsmtest.Results {
	t.Helper()
	g := newGuard(d, slots)
	others := map[hsm.PINKind]string{}
	if s.management != "" {
		others[hsm.ManagementKey] = s.management
	}
	typed := map[hsm.PINKind]string{hsm.UserPIN: s.pin, hsm.PIVPIN: s.pin, hsm.ManagementKey: s.management}
	algorithms := []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048}
	if slots != nil && info.Can.Lacks(hsm.ECDSAP256) != "" {
		algorithms = algorithms[1:]
	}
	return hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: algorithms, NoGuessing: true, NoDelete: !info.Can.Delete, NoOrigin: !info.Can.Attest && slots != nil,
		New: func(t *testing.T) hsmtest.Device {
			t.Cleanup(func() {
				if err := g.clean(context.Background(), info.URI(), hsmtest.TypingAll(t, typed)); err != nil {
					t.Errorf("remove the keys of this run: %v", err)
				}
			})
			tok, err := d.Open(t.Context(), info.URI())
			if err != nil {
				t.Fatal(err)
			}
			defer tok.Close()
			if err := tok.Lock(); err != nil {
				t.Fatal(err)
			}
			return hsmtest.Device{Driver: g, Token: info.URI(), PIN: s.pin, WrongPIN: "", Others: others, Slots: slots}
		},
	})
}

// verify tries the PIN once, so that a mistyped one is not typed on and on by
// the suite.
func verify(t *testing.T, d hsm.Driver, info hsm.TokenInfo, pin string) {
	t.Helper()
	if n := info.PIN.Retries; info.PIN.Locked || info.PIN.Final || n >= 0 && n < 3 {
		t.Fatalf("the token has too few PIN tries left (%d): use it with its right PIN first", n)
	}
	tok, err := d.Open(t.Context(), info.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	if err := tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.PIN(pin))); err != nil {
		t.Fatalf("the PIN was refused; nothing else was done: %v", err)
	}
	if err := tok.Lock(); err != nil {
		t.Fatal(err)
	}
}

func listed(slots []string) string { return strings.Join(slots, ", ") }
