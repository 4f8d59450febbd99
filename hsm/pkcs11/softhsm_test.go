//go:build cgo

package pkcs11

import (
	"errors"
	"path/filepath"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/tokens"
)

const (
	testPIN   = "314159"
	testLabel = "kubehsm test; 50% / ü"
)

// softHSM starts a private SoftHSM with one token, and a driver on it.
func softHSM(t *testing.T) (*Driver, *hsmtest.SoftHSM) {
	t.Helper()
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN})
	d := New(Options{
		Modules: []Module{{Path: soft.Module, Env: soft.Env()}},
		LockDir: filepath.Join(t.TempDir(), "lock"),
	})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	return d, soft
}

// tokenURI names the test's token as `token list` would.
func tokenURI(t *testing.T, d *Driver, label string) hsm.URI {
	t.Helper()
	l, err := d.List(t.Context())
	must.OK(t, err)
	for _, info := range l.Tokens {
		if info.Label == label {
			return info.URI()
		}
	}
	t.Fatalf("no token %q among %+v, problems %v", label, l.Tokens, l.Problems)
	return hsm.URI{}
}

func openToken(t *testing.T, d *Driver) hsm.Token {
	t.Helper()
	tok, err := d.Open(t.Context(), tokenURI(t, d, testLabel))
	must.OK(t, err)
	return tok
}

func generateKey(t *testing.T, tok hsm.Token, o hsm.GenerateOptions) hsm.Slot {
	t.Helper()
	slot, err := tok.Generate(t.Context(), o, hsmtest.Typing(t, testPIN))
	must.OK(t, err)
	return slot
}

// spy is a session beside the driver's, in the same process.
type spy struct {
	*p11.Ctx
	lib *library
	sh  p11.SessionHandle
}

func (s spy) reader() *reader { return &reader{ctx: s.Ctx, lib: s.lib, sh: s.sh} }

func spyOn(t *testing.T, soft *hsmtest.SoftHSM, label string) spy {
	t.Helper()
	lib, c, err := openLibrary(soft.Module)
	must.OK(t, err)
	if err := c.Initialize(); err != nil && !is(err, p11.CKR_CRYPTOKI_ALREADY_INITIALIZED) {
		t.Fatal(err)
	}
	slots, err := c.GetSlotList(true)
	must.OK(t, err)
	for _, slot := range slots {
		if info, err := c.GetTokenInfo(slot); err != nil || info.Label != label {
			continue
		}
		sh, err := c.OpenSession(slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
		must.OK(t, err)
		if err := c.Login(sh, p11.CKU_USER, testPIN); err != nil && !is(err, p11.CKR_USER_ALREADY_LOGGED_IN) {
			t.Fatal(err)
		}
		return spy{c, lib, sh}
	}
	t.Fatalf("no token %q", label)
	return spy{}
}

// private finds a private key by its id.
func (s spy) private(t *testing.T, id []byte) p11.ObjectHandle {
	t.Helper()
	r := s.reader()
	all := r.find(p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PRIVATE_KEY), p11.NewAttribute(p11.CKA_ID, id))
	if r.err != nil || len(all) != 1 {
		t.Fatalf("%d private keys with the id, %v", len(all), r.err)
	}
	return all[0]
}

// secrets tries to read, unlock, copy and wrap a private key's value and
// returns what worked.
func (s spy) secrets(t *testing.T, key p11.ObjectHandle) (got []string) {
	t.Helper()
	for name, typ := range map[string]uint{
		"CKA_VALUE": p11.CKA_VALUE, "CKA_PRIVATE_EXPONENT": p11.CKA_PRIVATE_EXPONENT, "CKA_PRIME_1": p11.CKA_PRIME_1,
		"CKA_PRIME_2": p11.CKA_PRIME_2, "CKA_EXPONENT_1": p11.CKA_EXPONENT_1, "CKA_COEFFICIENT": p11.CKA_COEFFICIENT,
	} {
		if a, err := s.GetAttributeValue(s.sh, key, []*p11.Attribute{p11.NewAttribute(typ, nil)}); err == nil &&
			len(a[0].Value) > 0 {
			got = append(got, name)
		}
	}
	weaken := []*p11.Attribute{p11.NewAttribute(p11.CKA_EXTRACTABLE, true), p11.NewAttribute(p11.CKA_SENSITIVE, false)}
	for _, a := range weaken {
		if s.SetAttributeValue(s.sh, key, []*p11.Attribute{a}) == nil {
			got = append(got, "weakened")
		}
		if _, err := s.CopyObject(s.sh, key, []*p11.Attribute{p11.NewAttribute(p11.CKA_TOKEN, false), a}); err == nil {
			got = append(got, "weakened copy")
		}
	}
	wrapping, err := s.GenerateKey(s.sh, []*p11.Mechanism{p11.NewMechanism(p11.CKM_AES_KEY_GEN, nil)}, []*p11.Attribute{
		p11.NewAttribute(p11.CKA_VALUE_LEN, 32), p11.NewAttribute(p11.CKA_WRAP, true), p11.NewAttribute(p11.CKA_TOKEN, false),
	})
	if err != nil {
		t.Fatalf("wrapping key: %v", err)
	}
	for _, m := range []uint{p11.CKM_AES_KEY_WRAP_PAD, p11.CKM_AES_KEY_WRAP} {
		if w, err := s.WrapKey(s.sh, []*p11.Mechanism{p11.NewMechanism(m, nil)}, wrapping, key); err == nil && len(w) > 0 {
			got = append(got, "wrapped")
			break
		}
	}
	return got
}

func TestContract(t *testing.T) {
	r := hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.ECDSAP384, hsm.RSA2048, hsm.Ed25519},
		Slow:       []hsm.Algorithm{hsm.RSA3072}, // 4096 bits are openCryptoki's, in test/modules
		Has:        hsmtest.AddToken | hsmtest.Extract,
		New: func(t *testing.T) hsmtest.Device {
			d, soft := softHSM(t)
			return hsmtest.Device{
				Driver: d, Token: tokenURI(t, d, testLabel), PIN: testPIN, WrongPIN: "271828",
				AddToken: func(t *testing.T) hsm.URI {
					must.OK(t, soft.Add(hsmtest.SoftToken{Label: "second", PIN: testPIN}))
					return tokenURI(t, d, "second")
				},
				Extract: func(t *testing.T, slot hsm.Slot) {
					s := spyOn(t, soft, testLabel)
					if got := s.secrets(t, s.private(t, slot.URI.ID)); len(got) > 0 {
						t.Errorf("the private key can be had: %v", got)
					}
				},
			}
		},
	})
	tokens.Record(t, "SoftHSM 2", "pkcs11: libsofthsm2", r)
}

// TestExtractableKeyIsTold makes a key that may leave the token with another
// tool: the driver says so, and the attempts above do get it.
func TestExtractableKeyIsTold(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	s := spyOn(t, soft, testLabel)
	plan, err := planKey(hsm.GenerateOptions{Label: "weak"})
	must.OK(t, err)
	for i, a := range plan.private {
		switch a.Type {
		case p11.CKA_SENSITIVE:
			plan.private[i] = p11.NewAttribute(p11.CKA_SENSITIVE, false)
		case p11.CKA_EXTRACTABLE:
			plan.private[i] = p11.NewAttribute(p11.CKA_EXTRACTABLE, true)
		}
	}
	_, private, err := s.GenerateKeyPair(s.sh, []*p11.Mechanism{p11.NewMechanism(plan.mechanism, nil)}, plan.public,
		plan.private)
	must.OK(t, err)
	if got := s.secrets(t, private); len(got) < 2 {
		t.Errorf("the attempts got only %v of an extractable key", got)
	}
	slot, err := tok.Slot(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Object: "weak"})
	if err != nil || slot.Key == nil || !slot.Key.Extractable {
		t.Errorf("an extractable key is shown as %+v, %v", slot.Key, err)
	}
}

// TestGenerateRemovesExtractable: a token that ignores the template is caught.
func TestGenerateRemovesExtractable(t *testing.T) {
	d, _ := softHSM(t)
	tok := openToken(t, d).(*token)
	must.OK(t, tok.Unlock(t.Context(), hsmtest.Typing(t, testPIN)))
	plan, err := planKey(hsm.GenerateOptions{Label: "weak"})
	must.OK(t, err)
	for i, a := range plan.private {
		if a.Type == p11.CKA_EXTRACTABLE {
			plan.private[i] = p11.NewAttribute(p11.CKA_EXTRACTABLE, true)
		}
	}
	err = tok.d.writing(t.Context(), func(w writer) error {
		_, err := w.generate(plan)
		return err
	})
	if !errors.Is(err, hsm.ErrUnsupported) {
		t.Errorf("error %v, want %v", err, hsm.ErrUnsupported)
	}
	if slots, err := tok.Slots(t.Context(), nil); err != nil || len(slots) != 0 {
		t.Errorf("%d slots left, %v", len(slots), err)
	}
}
