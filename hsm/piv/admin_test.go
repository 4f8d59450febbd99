//go:build cgo || windows

package piv

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func newP256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return k
}

func selfSigned(t *testing.T) *x509.Certificate {
	t.Helper()
	cert, err := hsmtest.Certify(newP256(t), "test")
	must.OK(t, err)
	return cert
}

func (r *rig) certify(t *testing.T, slot string) *x509.Certificate {
	t.Helper()
	cert, err := hsmtest.Certify(r.signer(t, slot, typing(t)), "test")
	must.OK(t, err)
	must.OK(t, r.tok.StoreCertificate(t.Context(), hsm.URI{Scheme: hsm.SchemePIV, Slot: slot}, cert, typing(t)))
	return cert
}

func TestChangePIN(t *testing.T) {
	r := newRig(t, vcard.Config{})
	ctx := t.Context()
	p := hsmtest.NewScript(t, hsmtest.PIN("999999"), hsmtest.PIN("135790"), hsmtest.PIN(vcard.DefaultPIN))
	must.OK(t, r.tok.ChangePIN(ctx, hsm.PIVPIN, p))
	if asked := p.PINs(); !asked[1].New || asked[2].Again == "" || !r.card.CheckPIN("135790") {
		t.Errorf("asked %+v", asked)
	}
	p = hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPUK), hsmtest.PIN("12345678"), hsmtest.PIN("13579024"))
	must.OK(t, r.tok.ChangePIN(ctx, hsm.PUK, p))
	if asked := p.PINs(); asked[0].Kind != hsm.PUK || asked[0].Retries != 3 || asked[2].Again == "" ||
		!r.card.CheckPUK("13579024") {
		t.Errorf("asked %+v", asked)
	}
	r.card.SetPINRetries(0)
	want(t, r.tok.Unlock(ctx, hsmtest.NewScript(t)), hsm.ErrPINLocked)
	must.OK(t, r.tok.Unblock(ctx, hsmtest.NewScript(t, hsmtest.PIN("13579024"), hsmtest.PIN("246802"))))
	must.OK(t, r.tok.Unlock(ctx, hsmtest.NewScript(t, hsmtest.PIN("246802"))))
	r.forgotten(t, "after all this")
}

// TestPUKLastTry: the last try of a PUK needs its own yes, a locked one is not asked for.
func TestPUKLastTry(t *testing.T) {
	r := newRig(t, vcard.Config{Ways: vcard.Ways{BlockedAsZero: true}})
	p := hsmtest.NewScript(t, hsmtest.PIN("99999999"), hsmtest.PIN("246802"), hsmtest.PIN("99999998"), hsmtest.No())
	want(t, r.tok.Unblock(t.Context(), p), hsm.ErrCancelled)
	if _, puk := r.card.PINRetries(); puk != 1 {
		t.Fatalf("%d PUK tries left", puk)
	}
	p = hsmtest.NewScript(t, hsmtest.Yes(), hsmtest.PIN("99999999"), hsmtest.PIN("246802"))
	want(t, r.tok.Unblock(t.Context(), p), hsm.ErrPINLocked)
	want(t, r.tok.Unblock(t.Context(), hsmtest.NewScript(t)), hsm.ErrPINLocked)
}

// TestProbesDoNothing: what cards are asked to find out what they can do changes nothing,
// also where another program has left the PIN and the management key proved.
func TestProbesDoNothing(t *testing.T) {
	for _, p := range vcard.Personalities() {
		t.Run(p.Name, func(t *testing.T) {
			r := newRig(t, p.Config)
			c, err := pcsc.New().Connect(t.Context(), r.lab.Reader(0), r.d.cards.patience)
			must.OK(t, err)
			s, err := applet.Open(t.Context(), new(applet.Operation), c)
			must.OK(t, err)
			st, err := s.Management.State()
			must.OK(t, err)
			_, key := r.card.ManagementKey()
			must.OK(t, s.Management.Authenticate(st, key, func() func() { return func() {} }))
			must.OK(t, s.PINs.Verify(hsm.NewSecret([]byte(vcard.DefaultPIN))))
			asked := len(r.card.Log())
			_, err = s.Ask()
			must.OK(t, err)
			must.OK(t, c.End(true))
			for _, e := range r.card.Log()[asked:] {
				wrong := e.INS == vcard.INSGenerate && e.P2 != 0x7f ||
					e.INS == vcard.INSMoveKey && e.P1 != 0x7f || e.INS == vcard.INSSetManagement && e.P1 != 0x7f
				if wrong {
					t.Errorf("%02x %02x %02x could be carried out", e.INS, e.P1, e.P2)
				}
			}
		})
	}
}

// TestManagementKey: the factory's, one that is asked for, one on the card.
func TestManagementKey(t *testing.T) {
	for _, c := range []struct {
		name string
		alg  hsm.ManagementAlgorithm
		code byte
		fw   [3]byte
	}{
		{"3DES", hsm.TDES, 0x03, [3]byte{5, 4, 3}}, {"AES-128", hsm.AES128, 0x08, [3]byte{5, 7, 1}},
		{"AES-192", hsm.AES192, 0x0a, [3]byte{5, 7, 1}}, {"AES-256", hsm.AES256, 0x0c, [3]byte{5, 7, 1}},
		{"3DES without metadata", hsm.TDES, 0x03, [3]byte{4, 3, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, vcard.Config{Firmware: c.fw})
			key, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Algorithm: c.alg}, hsmtest.NewScript(t))
			must.OK(t, err)
			if alg, have := r.card.ManagementKey(); alg != c.code || !bytes.Equal(have, key.Bytes()) {
				t.Fatalf("the card has another key (%02x)", alg)
			}
			r.forgotten(t, "after setting it")
			wrong := hex.EncodeToString(make([]byte, key.Len()))
			p := hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN), hsmtest.PIN("nonsense and then some, long enough"),
				hsmtest.PIN(wrong), hsmtest.PIN(hex.EncodeToString(key.Bytes())))
			r.generate(t, hsm.GenerateOptions{Slot: "9a"}, p)
			if asked := p.PINs(); asked[0].Kind != hsm.PIVPIN || asked[3].Kind != hsm.ManagementKey {
				t.Errorf("asked %+v", asked)
			}
		})
	}
}

func TestProtectedManagementKey(t *testing.T) {
	r := newRig(t, vcard.Config{})
	key, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Algorithm: hsm.AES256, Protect: true},
		typing(t))
	must.OK(t, err)
	must.OK(t, r.tok.Lock())
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN)))
	d, err := r.tok.Details(t.Context())
	must.OK(t, err)
	if m := d.ManagementKey; !m.Protected || m.Default || m.Algorithm != hsm.AES256 {
		t.Errorf("%+v", m)
	}
	// As ykman writes it.
	if got := r.card.Object(0x5fff00); !bytes.Equal(got, []byte{0x80, 3, 0x81, 1, 2}) {
		t.Errorf("flags %x", got)
	}
	if got := r.card.Object(0x5fc109); !bytes.Equal(got, append([]byte{0x88, 34, 0x89, 32}, key.Bytes()...)) {
		t.Errorf("protected data of %d bytes", len(got))
	}
	// And away again.
	fresh, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{}, typing(t))
	must.OK(t, err)
	if got := r.card.Object(0x5fc109); bytes.Contains(got, key.Bytes()) || bytes.Contains(got, fresh.Bytes()) {
		t.Error("a key is left on the card")
	}
	if got := r.card.Object(0x5fff00); !bytes.Equal(got, []byte{0x80, 3, 0x81, 1, 0}) {
		t.Errorf("flags %x", got)
	}
}

// TestManagementKeyHalfWay: a card that fails after it has taken the new key is asked which
// one it has, and one that has the old one keeps the copy of that.
func TestManagementKeyHalfWay(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.card.Fail(vcard.Fault{INS: vcard.INSSetManagement, SW: 0x6f00, After: true, Times: 1})
	key, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Protect: true}, typing(t))
	must.OK(t, err)
	if _, have := r.card.ManagementKey(); !bytes.Equal(have, key.Bytes()) {
		t.Error("another key is in force")
	}
	// The card kept a copy before: nothing has to be typed.
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, hsmtest.NewScript(t))

	for _, sw := range []uint16{0x6f00, 0x6a80} {
		r.card.Fail(vcard.Fault{INS: vcard.INSSetManagement, P2: new(byte(0xff)), Skip: 0, SW: sw, Times: 1})
		fresh, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Protect: true}, typing(t))
		want(t, err, applet.ErrOldKey)
		if fresh != nil || errors.Is(err, hsm.ErrUnsupported) != (sw == 0x6a80) {
			t.Errorf("%04x: key %v, error %v", sw, fresh != nil, err)
		}
		if _, have := r.card.ManagementKey(); !bytes.Equal(have, key.Bytes()) {
			t.Error("another key is in force")
		}
		r.generate(t, hsm.GenerateOptions{Slot: "9a", Overwrite: true}, typing(t))
	}

}

// TestManagementKeyInterrupted: wherever a change of the management key ends, because the
// card is pulled out or the program killed, the PIN is enough to write to the card, and the
// same command again brings it to its end.
func TestManagementKeyInterrupted(t *testing.T) {
	protect := hsm.ManagementKeyOptions{Protect: true}
	for _, first := range []bool{true, false} { // The old key is the default one, or one that the card keeps.
		for n, at := range []vcard.Fault{
			{INS: vcard.INSPutData}, {INS: vcard.INSPutData, After: true}, {INS: vcard.INSSetManagement},
			{INS: vcard.INSSetManagement, After: true}, {INS: vcard.INSPutData, Skip: 1},
			{INS: vcard.INSPutData, Skip: 1, After: true}, {INS: vcard.INSPutData, Skip: 2},
		} {
			t.Run(fmt.Sprintf("first %v, place %d", first, n), func(t *testing.T) {
				r := newRig(t, vcard.Config{})
				if !first {
					_, err := r.tok.SetManagementKey(t.Context(), protect, typing(t))
					must.OK(t, err)
				}
				at.Unplug, at.Times = true, 1
				if at.INS == vcard.INSSetManagement {
					at.P2 = new(byte(0xff))
				}
				r.card.Fail(at)
				_, err := r.tok.SetManagementKey(t.Context(), protect, typing(t))
				r.card.Heal()
				if err == nil && at.Skip < 2 {
					t.Fatal("it was not interrupted")
				}
				r.lab.Insert(t, 0, r.card)
				r.tok = r.open(t, hsm.URI{Scheme: hsm.SchemePIV})
				r.generate(t, hsm.GenerateOptions{Slot: "9a"}, hsmtest.Typing(t, vcard.DefaultPIN))
				key, err := r.tok.SetManagementKey(t.Context(), protect, typing(t))
				must.OK(t, err)
				if _, have := r.card.ManagementKey(); !bytes.Equal(have, key.Bytes()) {
					t.Error("another key is in force")
				}
				if got := r.card.Object(0x5fc109); !bytes.Equal(got, append([]byte{0x88, 26, 0x89, 24}, key.Bytes()...)) {
					t.Errorf("the card keeps %d bytes", len(got))
				}
			})
		}
	}
}

func TestReset(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	want(t, r.tok.Reset(t.Context(), hsmtest.NewScript(t, hsmtest.No())), hsm.ErrCancelled)
	if pin, _ := r.card.PINRetries(); pin != 3 {
		t.Fatal("a declined reset spent tries")
	}
	p := hsmtest.NewScript(t, hsmtest.Yes())
	must.OK(t, r.tok.Reset(t.Context(), p))
	if c := p.Prompts()[0].Confirm; c.Type != "12345678" {
		t.Errorf("asked %+v", c)
	}
	if s, err := r.tok.Slots(t.Context(), nil); err != nil || len(s) != 0 {
		t.Errorf("%d slots left, %v", len(s), err)
	}
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
}

func TestAllSlots(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	r.certify(t, "9a")
	r.place(0x9a, selfSigned(t).Raw)
	r.place(0x9c, selfSigned(t).Raw)
	r.card.SetObject(0x5fc10b, []byte("nonsense"))
	all, err := r.tok.AllSlots(t.Context())
	must.OK(t, err)
	problems := map[string]string{}
	for _, s := range all {
		problems[s.ID] = s.Problem
	}
	want := map[string]string{
		"9a": "the certificate is for another key", "9c": "a certificate without its key",
		"9d": "the certificate object is unreadable", "9e": "", "f9": "reserved for the attestation key",
	}
	for id, text := range want {
		if problems[id] != text {
			t.Errorf("slot %s: %q, want %q", id, problems[id], text)
		}
	}
	if len(all) != 25 {
		t.Errorf("%d slots", len(all))
	}
}

func TestFirmwareLimits(t *testing.T) {
	for _, c := range []struct {
		fw [3]byte
		o  hsm.GenerateOptions
	}{
		{[3]byte{5, 4, 3}, hsm.GenerateOptions{Algorithm: hsm.Ed25519}},
		{[3]byte{5, 4, 3}, hsm.GenerateOptions{Algorithm: hsm.RSA4096}},
		{[3]byte{4, 2, 6}, hsm.GenerateOptions{Algorithm: hsm.RSA2048}},
		{[3]byte{4, 2, 6}, hsm.GenerateOptions{Touch: hsm.TouchCached}},
	} {
		t.Run(fmt.Sprint(c.fw, c.o.Algorithm, c.o.Touch), func(t *testing.T) {
			r := newRig(t, vcard.Config{Firmware: c.fw})
			c.o.Slot = "9a"
			_, err := r.tok.Generate(t.Context(), c.o, hsmtest.NewScript(t))
			want(t, err, hsm.ErrUnsupported)
			if hint.Of(err) == "" {
				t.Errorf("%v: no hint", err)
			}
		})
	}
}

// TestGiveUpTooLate: who leaves while the management key is replaced still gets
// to know the new one; who leaves during a long key generation leaves no key.
func TestGiveUpTooLate(t *testing.T) {
	r := newRig(t, vcard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	r.card.OnCommand(func(ins byte) {
		if ins == vcard.INSSetManagement {
			cancel()
		}
	})
	key, err := r.tok.SetManagementKey(ctx, hsm.ManagementKeyOptions{Protect: true}, typing(t))
	must.OK(t, err)
	if _, have := r.card.ManagementKey(); !bytes.Equal(have, key.Bytes()) {
		t.Error("another key is in force than the one returned")
	}
	ctx, cancel = context.WithCancel(t.Context())
	r.card.OnCommand(func(ins byte) {
		if ins == vcard.INSGenerate {
			cancel()
		}
	})
	_, err = r.tok.Generate(ctx, hsm.GenerateOptions{Slot: "9a", Algorithm: hsm.RSA2048}, typing(t))
	want(t, err, context.Canceled)
	r.card.OnCommand(nil)
	all, err := r.tok.Slots(t.Context(), nil) // waits until the card is free
	must.OK(t, err)
	if len(all) != 0 || r.card.Public(0x9a) != nil {
		t.Error("a key is left that nobody heard of")
	}
	r.forgotten(t, "after giving up")
}

// TestClosedDriver: its tokens are dead.
func TestClosedDriver(t *testing.T) {
	r := newRig(t, vcard.Config{})
	must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
	must.OK(t, r.d.Close())
	if r.tok.Unlocked() {
		t.Error("the PIN is still held")
	}
	_, err := r.tok.Info(t.Context())
	want(t, err, hsm.ErrNoToken)
}
