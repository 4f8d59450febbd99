//go:build cgo || windows

// Package personalities runs the contract suite on the kinds of PIV cards that there are,
// played by the virtual card through the real pcscd.
package personalities_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(m)) }

const (
	wrongPIN = "654321"
	features = hsmtest.Tries | hsmtest.AddToken | hsmtest.Unplug
)

// ownKey is a management key that is not the factory's.
var ownKey = []byte("kubehsm management key24")

// algorithmsOf names the algorithms with these codes.
func algorithmsOf(codes []byte) (out []hsm.Algorithm) {
	for _, code := range codes {
		for _, a := range hsm.Algorithms() {
			if c, _ := applet.AlgorithmCode(a); c == code {
				out = append(out, a)
			}
		}
	}
	return out
}

// sibling is another card of the kind.
func sibling(c vcard.Config) vcard.Config {
	c.Serial = 87654321
	if c.CHUID != nil {
		other := *c.CHUID
		other[8]++
		c.CHUID = &other
	}
	if n := c.Ways.Serial; len(n) > 0 && n[0] == 0 && n[3] != 0 {
		c.Ways.Serial = []byte{n[0], n[1], n[2], n[3] + 1}
	}
	return c
}

// personified has a new card of the kind in the lab's first reader.
func personified(lab *vcard.Lab, p vcard.Personality) func(t *testing.T) hsmtest.Device {
	return func(t *testing.T) hsmtest.Device {
		card := vcard.New(p.Config)
		alg, key := card.ManagementKey()
		own := ownKey[:len(key)]
		card.SetManagementKey(alg, own)
		lab.Insert(t, 0, card)
		lab.Remove(t, 1)
		d := piv.New(piv.Options{})
		t.Cleanup(func() { d.Close() })
		uri := func(reader int) hsm.URI {
			l, err := d.List(t.Context())
			must.OK(t, err)
			for _, info := range l.Tokens {
				if info.Reader == lab.Reader(reader) {
					return info.URI()
				}
			}
			t.Fatalf("not listed: %+v", l.Problems)
			return hsm.URI{}
		}
		device := hsmtest.Device{
			Driver: d, Token: uri(0), PIN: vcard.DefaultPIN, WrongPIN: wrongPIN,
			Others: map[hsm.PINKind]string{hsm.ManagementKey: hex.EncodeToString(own)},
			Slots:  []string{"9a", "9c", "82", "83", "95"},
			AddToken: func(t *testing.T) hsm.URI {
				lab.Insert(t, 1, vcard.New(sibling(p.Config)))
				return uri(1)
			},
			Unplug: func() { lab.Remove(t, 0) },
			Plug:   func() { lab.Insert(t, 0, card) },
		}
		if p.Config.Ways.Tries == 0 {
			device.Tries = func() int { pin, _ := card.PINRetries(); return pin }
		}
		return device
	}
}

// TestPersonalities runs the contract suite on each kind of card.
func TestPersonalities(t *testing.T) {
	for _, p := range vcard.Personalities() {
		t.Run(p.Name, func(t *testing.T) {
			has := features
			if p.Config.Ways.Tries != 0 {
				has &^= hsmtest.Tries
			}
			r := hsmtest.Run(t, hsmtest.Fixture{
				New: personified(vcard.ForTest(t), p), Algorithms: algorithmsOf(p.Algorithms), NoDelete: p.NoDelete,
				NoOrigin: p.NoOrigin, Has: has,
			})
			tokens.RecordKind(t, p.Name, p.About, r)
		})
	}
}

// TestSaysBeforehand: what a kind of card cannot do is known before anybody is asked for
// anything, and nothing else is refused for what its version says.
func TestSaysBeforehand(t *testing.T) {
	for _, p := range vcard.Personalities() {
		t.Run(p.Name, func(t *testing.T) {
			lab := vcard.ForTest(t)
			card := vcard.New(p.Config)
			lab.Insert(t, 0, card)
			d := piv.New(piv.Options{})
			defer d.Close()
			tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV})
			must.OK(t, err)
			defer tok.Close()
			info, err := tok.Info(t.Context())
			must.OK(t, err)
			can := info.Can
			for what, c := range map[string]struct{ able, lacks bool }{
				"delete": {can.Delete, p.NoDelete}, "attest": {can.Attest, p.NoAttest},
				"policies": {can.Policies, p.NoPolicies}, "reset": {can.Reset, p.NoReset},
				"management key": {can.ManagementKey, p.NoManagement},
			} {
				if c.able == c.lacks {
					t.Errorf("%s: the token says %v", what, c.able)
				}
			}
			for _, a := range hsm.Algorithms() {
				code, _ := applet.AlgorithmCode(a)
				if lacks := can.Lacks(a) != ""; lacks != (bytes.IndexByte(p.Cannot, code) >= 0) {
					t.Errorf("%s: the token says %q", a, can.Lacks(a))
				}
			}
			nobody := hsmtest.NewScript(t)
			for _, code := range p.Cannot {
				o := hsm.GenerateOptions{Slot: "9a", Algorithm: algorithmsOf([]byte{code})[0]}
				_, err := tok.Generate(t.Context(), o, nobody)
				refused(t, err)
			}
			if p.NoPolicies {
				_, err := tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9a", Algorithm: algorithmsOf(p.Algorithms)[0],
					Touch: hsm.TouchAlways}, nobody)
				refused(t, err)
			}
			if p.NoManagement {
				_, err := tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Protect: true}, nobody)
				refused(t, err)
			}
			if p.NoReset {
				refused(t, tok.Reset(t.Context(), nobody))
			}
			pin, puk := card.PINRetries()
			if tries := max(p.Config.Ways.Tries, 3); pin != tries || puk != tries {
				t.Errorf("%d and %d tries left", pin, puk)
			}
			t.Logf("firmware %q, serial %s, can %+v", info.Firmware, info.Serial, can)
		})
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, hsm.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}
