//go:build cgo

package modules

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// certificateObjects are the slots' data objects (SP 800-73-4 part 1 table 3).
var certificateObjects = map[byte]uint32{0x9a: 0x5fc105, 0x9c: 0x5fc10a, 0x9d: 0x5fc10b, 0x9e: 0x5fc101}

// fill gives a card keys with certificates: two on P-256, one of RSA. The key
// in 9c wants the PIN every time.
func fill(t *testing.T, card *vcard.Card) keys {
	t.Helper()
	held := keys{}
	for _, s := range []struct {
		slot byte
		pin  byte
		alg  hsm.Algorithm
	}{{0x9a, 2, hsm.ECDSAP256}, {0x9c, 3, hsm.ECDSAP256}, {0x9e, 1, hsm.RSA2048}} {
		var key crypto.Signer
		var err error
		if s.alg == hsm.RSA2048 {
			key, err = rsa.GenerateKey(rand.Reader, 2048)
		} else {
			key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		}
		must.OK(t, err)
		cert, err := hsmtest.Certify(key, string(s.alg))
		must.OK(t, err)
		if !card.SetKey(s.slot, key, s.pin, 1) {
			t.Fatalf("the card takes no %s", s.alg)
		}
		card.SetObject(certificateObjects[s.slot], object(cert.Raw))
		held[s.alg] = append(held[s.alg], key.Public())
	}
	return held
}

// object is a certificate as a card stores it (SP 800-73-4 part 1 table 10):
// tags 70 the certificate, 71 not compressed, FE without a checksum.
func object(der []byte) []byte {
	out := []byte{0x70, 0x82, byte(len(der) >> 8), byte(len(der))}
	return append(append(out, der...), 0x71, 1, 0, 0xfe, 0)
}

// overCard makes the fixture's devices: a fresh card behind a module.
func overCard(m func(t *testing.T) pkcs11.Module) func(*testing.T) hsmtest.Device {
	return func(t *testing.T) hsmtest.Device {
		lab := vcard.ForTest(t)
		module := m(t)
		card := vcard.New(vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321})
		held := fill(t, card)
		lab.Insert(t, 0, card)
		d := driver(t, module)
		return hsmtest.Device{
			Driver: d, Token: only(t, d).URI(), PIN: vcard.DefaultPIN, WrongPIN: "654321", Keys: held,
			Unplug: func() { lab.Remove(t, 0) },
			Plug:   func() { lab.Insert(t, 0, card) },
		}
	}
}

func ykcs11(t *testing.T) pkcs11.Module {
	return pkcs11.Module{Path: p11server.Library(t, "libykcs11.so.2")}
}

func opensc(t *testing.T) pkcs11.Module {
	return pkcs11.Module{Path: p11server.Library(t, "opensc-pkcs11.so")}
}

func TestYKCS11(t *testing.T) { testCard(t, ykcs11, "ykcs11", "libykcs11") }
func TestOpenSC(t *testing.T) { testCard(t, opensc, "OpenSC", "opensc-pkcs11") }

func testCard(t *testing.T, module func(*testing.T) pkcs11.Module, title, library string) {
	r := hsmtest.Run(t, hsmtest.Fixture{
		New: overCard(module), Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048}, ReadOnly: true, Has: hsmtest.Unplug,
	})
	tokens.Record(t, "virtual YubiKey 5.4.3, "+title, "pkcs11: "+library, r)
}

// TestAlwaysAuthenticate: the key in 9c wants the PIN for every signature
// (CKA_ALWAYS_AUTHENTICATE), and nobody types it twice for one.
func TestAlwaysAuthenticate(t *testing.T) {
	for name, module := range map[string]func(*testing.T) pkcs11.Module{"ykcs11": ykcs11, "opensc": opensc} {
		t.Run(name, func(t *testing.T) {
			device := overCard(module)(t)
			tok, err := device.Driver.Open(t.Context(), device.Token)
			must.OK(t, err)
			defer tok.Close()
			p := hsmtest.Typing(t, device.PIN)
			u := device.Token
			if err := tok.Unlock(t.Context(), p); err != nil { // modules tell the attribute of keys they show
				t.Fatal(err)
			}
			all, err := tok.Slots(t.Context(), nil)
			must.OK(t, err)
			for _, s := range all {
				if s.Key != nil && hsm.SameKey(s.Key.Public, device.Keys[hsm.ECDSAP256][1]) {
					u = s.URI
					if s.Key.PIN != hsm.PINAlways {
						t.Errorf("PIN policy %q, want %q", s.Key.PIN, hsm.PINAlways)
					}
				}
			}
			must.OK(t, tok.Lock())
			p = hsmtest.Typing(t, device.PIN)
			sign, err := tok.Signer(t.Context(), u, device.Keys[hsm.ECDSAP256][1], p)
			must.OK(t, err)
			sum := sha256.Sum256([]byte("kubehsm"))
			for i := range 3 {
				if _, err := sign.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
					t.Fatal(err)
				}
				if n := len(p.PINs()); n != i+1 {
					t.Fatalf("%d PIN prompts for %d signatures", n, i+1)
				}
			}
		})
	}
}

// TestNoService: without pcscd ykcs11 fails in a way of its own. That is a token
// that is not there, not a broken library, and is said once.
func TestNoService(t *testing.T) {
	vcard.Private(t)
	module := driver(t, pkcs11.Module{Path: p11server.Library(t, "libykcs11.so")})
	l, err := module.List(t.Context())
	if err != nil || len(l.Tokens) != 0 || len(l.Problems) != 1 || !errors.Is(l.Problems[0].Err, hsm.ErrNoToken) ||
		hint.Of(l.Problems[0].Err) == "" {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := module.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Serial: "1"}); !errors.Is(err,
		hsm.ErrNoToken) || errors.Is(err, hsm.ErrModule) {
		t.Error(err)
	}
	card := piv.New(piv.Options{})
	defer card.Close()
	l, err = hsm.Drivers{module, card}.List(t.Context())
	if err != nil || len(l.Problems) != 1 || !errors.Is(l.Problems[0].Err, pcsc.ErrNoService) {
		t.Errorf("%+v, %v", l, err)
	}
}
