//go:build cgo

package hardware

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// tokenVar names the token to be examined; anyToken is the only one that there is.
const (
	tokenVar = "KUBEHSM_HARDWARE"
	anyToken = "any"
)

func TestMain(m *testing.M) {
	if os.Getenv(tokenVar) != "" {
		os.Exit(m.Run()) // on this machine's own readers
	}
	os.Exit(vcard.Main(m))
}

// TestGuard runs the guarded suite on virtual cards that are in use, with and without
// the means to delete a key: what was on them is there afterwards, untouched.
func TestGuard(t *testing.T) {
	for name, firmware := range map[string][3]byte{"5.7.1": {5, 7, 1}, "5.4.3": {5, 4, 3}} {
		t.Run(name, func(t *testing.T) {
			lab := vcard.ForTest(t)
			card := vcard.New(vcard.Config{Firmware: firmware})
			lab.Insert(t, 0, card)
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			for _, slot := range []byte{0x9a, 0x94} {
				if !card.SetKey(slot, key, 2, 1) {
					t.Fatal("the card takes no key")
				}
			}
			d := piv.New(piv.Options{})
			t.Cleanup(func() { d.Close() })
			info, err := one(t.Context(), hsm.Drivers{d}, hsm.URI{})
			if err != nil {
				t.Fatal(err)
			}
			slots := freeSlots(t, d, info)
			verify(t, d, info, vcard.DefaultPIN)
			r := guardedSuite(t, d, info, slots, secrets{pin: vcard.DefaultPIN})
			if !r.Complete || r.Parts["Sign"] != hsmtest.Can || r.Parts["Unlock"] != hsmtest.Untested {
				t.Errorf("results %+v", r)
			}
			for _, slot := range []byte{0x9a, 0x94} {
				if !hsm.SameKey(card.Public(slot), key.Public()) {
					t.Errorf("the key in %x is gone", slot)
				}
			}
			if pin, _ := card.PINRetries(); pin != 3 {
				t.Errorf("%d PIN tries left", pin)
			}
			if bytes.Contains([]byte(listed(slots)), []byte("94")) {
				t.Errorf("slots %v include an occupied one", slots)
			}
			refuses(t, d, info, []string{"94"})
		})
	}
}

// refuses: even told to, the guard overwrites, signs with and deletes nothing
// that it did not make.
func refuses(t *testing.T, d hsm.Driver, info hsm.TokenInfo, slots []string) {
	tok, err := newGuard(d, slots).Open(t.Context(), info.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	u := info.URI()
	u.Slot = slots[0]
	if _, err := tok.Generate(t.Context(), hsm.GenerateOptions{Slot: slots[0], Overwrite: true}, nil); !errors.Is(err,
		hsm.ErrOccupied) {
		t.Errorf("generate: %v", err)
	}
	if _, err := tok.Signer(t.Context(), u, nil, nil); !errors.Is(err, hsm.ErrNoKey) {
		t.Errorf("sign: %v", err)
	}
	if err := tok.Delete(t.Context(), u, nil); !errors.Is(err, hsm.ErrNoKey) {
		t.Errorf("delete: %v", err)
	}
}
