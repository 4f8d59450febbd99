//go:build cgo

package hardware

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// secrets are those of a token that is not reset.
type secrets struct{ pin, management string }

// suite runs the contract suite on a token that may be erased. One that can be reset is
// reset before each part and at the end, and wrong PINs are typed. Another one must be
// empty: it is used with ask's secrets, no wrong PIN is typed, and what was made is deleted.
func suite(t *testing.T, d hsm.Driver, info hsm.TokenInfo, ask func() secrets) hsmtest.Results {
	t.Helper()
	if info.Can.Reset {
		return onReset(t, d, info)
	}
	if !info.Can.Delete {
		t.Fatal("the token can neither be reset nor delete a key: the suite would not leave it as it was")
	}
	s := ask()
	verify(t, d, info, s.pin)
	return onEmpty(t, d, info, s)
}

// reset resets the token and returns it as it is then: a card without a serial has another
// identity.
func reset(t *testing.T, d hsm.Driver, u hsm.URI) hsm.TokenInfo {
	t.Helper()
	tok, err := d.Open(t.Context(), u)
	must.OK(t, err)
	defer tok.Close()
	if err := tok.Reset(t.Context(), hsmtest.NewScript(t, hsmtest.Yes())); err != nil {
		t.Fatalf("reset: %v", err)
	}
	info, err := tok.Info(t.Context())
	must.OK(t, err)
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
	must.OK(t, err)
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
	must.OK(t, err)
	defer tok.Close()
	info, err := tok.Info(t.Context())
	must.OK(t, err)
	return info.PIN.Retries
}

// tryKeys makes a key of each algorithm on a card that was reset. It tells which the card
// makes, and whether it tells later where a key was made.
func tryKeys(t *testing.T, d hsm.Driver, info hsm.TokenInfo) (can, cannot []hsm.Algorithm, noOrigin bool) {
	t.Helper()
	tok, err := d.Open(t.Context(), info.URI())
	must.OK(t, err)
	defer tok.Close()
	p := hsmtest.Typing(t, vcard.DefaultPIN)
	must.OK(t, tok.Unlock(t.Context(), p))
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

// onEmpty runs the suite on a token that holds nothing, and deletes the keys made after each part.
func onEmpty(t *testing.T, d hsm.Driver, info hsm.TokenInfo, s secrets) hsmtest.Results {
	t.Helper()
	others := map[hsm.PINKind]string{}
	if s.management != "" {
		others[hsm.ManagementKey] = s.management
	}
	typed := map[hsm.PINKind]string{hsm.UserPIN: s.pin, hsm.PIVPIN: s.pin, hsm.ManagementKey: s.management}
	algorithms := []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048}
	var slots []string
	if info.Kind().HasSlots() {
		slots = []string{"82", "83", "84"}
		if info.Can.Lacks(hsm.ECDSAP256) != "" {
			algorithms = algorithms[1:]
		}
	}
	return hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: algorithms, NoGuessing: true, NoOrigin: !info.Can.Attest && slots != nil,
		New: func(t *testing.T) hsmtest.Device {
			t.Cleanup(func() {
				if err := clean(context.Background(), d, info.URI(), hsmtest.TypingAll(t, typed)); err != nil {
					t.Errorf("remove the keys of this run: %v", err)
				}
			})
			tok, err := d.Open(t.Context(), info.URI())
			must.OK(t, err)
			defer tok.Close()
			must.OK(t, tok.Lock())
			return hsmtest.Device{Driver: d, Token: info.URI(), PIN: s.pin, WrongPIN: "", Others: others, Slots: slots}
		},
	})
}

// clean deletes the keys on the token.
func clean(ctx context.Context, d hsm.Driver, token hsm.URI, p hsm.Prompter) error {
	tok, err := d.Open(ctx, token)
	if err != nil {
		return err
	}
	defer tok.Close()
	all, err := tok.Slots(ctx, p)
	errs := []error{err}
	for _, s := range all {
		if s.Key != nil {
			errs = append(errs, tok.Delete(ctx, s.URI, p))
		}
	}
	return errors.Join(errs...)
}

// empty returns an error if the token, which is unlocked, holds a key or a certificate.
func empty(ctx context.Context, tok hsm.Token) error {
	all, err := tok.Slots(ctx, nil)
	for _, s := range all {
		if s.Key != nil || s.Certificate != nil || s.Problem != "" {
			err = errors.Join(err, fmt.Errorf("the token cannot be reset, and %s is on it", s.URI))
		}
	}
	return err
}

// verify tries the PIN once, so that a mistyped one is not typed on and on by
// the suite, and then looks whether the token is empty.
func verify(t *testing.T, d hsm.Driver, info hsm.TokenInfo, pin string) {
	t.Helper()
	if n := info.PIN.Retries; info.PIN.Locked || info.PIN.Final || n >= 0 && n < 3 {
		t.Fatalf("the token has too few PIN tries left (%d): use it with its right PIN first", n)
	}
	tok, err := d.Open(t.Context(), info.URI())
	must.OK(t, err)
	defer tok.Close()
	if err := tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.PIN(pin))); err != nil {
		t.Fatalf("the PIN was refused; nothing else was done: %v", err)
	}
	if err := errors.Join(empty(t.Context(), tok), tok.Lock()); err != nil {
		t.Fatalf("nothing was done: %v", err)
	}
}
