//go:build cgo || windows

package piv

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"testing"

	pivgo "github.com/go-piv/piv-go/v2/piv"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func (r *rig) pivgo(t *testing.T) *pivgo.YubiKey {
	t.Helper()
	yk, err := pivgo.Open(r.lab.Reader(0))
	must.OK(t, err)
	return yk
}

// TestAsPIVGo: piv-go, another driver, reads what this one wrote, and the
// other way round.
func TestAsPIVGo(t *testing.T) {
	r := newRig(t, vcard.Config{})
	key, err := r.tok.SetManagementKey(t.Context(), hsm.ManagementKeyOptions{Protect: true}, typing(t))
	must.OK(t, err)
	slot := r.generate(t, hsm.GenerateOptions{Slot: "9a", PIN: hsm.PINAlways, Touch: hsm.TouchCached}, typing(t))
	cert := r.certify(t, "9a")

	yk := r.pivgo(t)
	info, err := yk.KeyInfo(pivgo.SlotAuthentication)
	must.OK(t, err)
	if info.PINPolicy != pivgo.PINPolicyAlways || info.TouchPolicy != pivgo.TouchPolicyCached ||
		info.Origin != pivgo.OriginGenerated ||
		!hsm.SameKey(info.PublicKey, slot.Key.Public) {
		t.Errorf("piv-go reads %+v", info)
	}
	got, err := yk.Certificate(pivgo.SlotAuthentication)
	must.OK(t, err)
	if !got.Equal(cert) {
		t.Error("piv-go reads another certificate")
	}
	m, err := yk.Metadata(vcard.DefaultPIN)
	must.OK(t, err)
	if m.ManagementKey == nil || !bytes.Equal(*m.ManagementKey, key.Bytes()) {
		t.Error("piv-go does not find the protected management key")
	}
	priv, err := yk.PrivateKey(pivgo.SlotAuthentication, info.PublicKey, pivgo.KeyAuth{PIN: vcard.DefaultPIN})
	must.OK(t, err)
	sum := sha256.Sum256([]byte("kubehsm"))
	sig, err := priv.(crypto.Signer).Sign(rand.Reader, sum[:], crypto.SHA256)
	must.OK(t, err)
	if !verifies(slot.Key.Public, sum[:], sig, crypto.SHA256) {
		t.Error("piv-go's signature does not verify")
	}
	statement, err := yk.Attest(pivgo.SlotAuthentication)
	must.OK(t, err)
	must.OK(t, yk.Close())

	a, err := r.tok.Attest(t.Context(), slot.URI)
	must.OK(t, err)
	roots := []*x509.Certificate{vcard.DefaultCA().Certificate}
	for _, der := range [][]byte{a.Statement, statement.Raw} {
		s, err := attest.Verifier{Roots: roots}.Verify(hsm.Attestation{Statement: der, Intermediate: a.Intermediate},
			slot.Key.Public)
		must.OK(t, err)
		if s.String() != "generated on YubiKey 5C 12345678, firmware 5.7.1, PIN always, touch cached" {
			t.Errorf("it says %q", s)
		}
	}
}

// TestYubikeyAgentsKey: the management key is found where yubikey-agent and
// other users of piv-go keep it, without ykman's flags.
func TestYubikeyAgentsKey(t *testing.T) {
	r := newRig(t, vcard.Config{Firmware: [3]byte{5, 4, 3}})
	yk := r.pivgo(t)
	own := bytes.Clone(ownKey)
	must.OK(t, yk.SetManagementKey(pivgo.DefaultManagementKey, own))
	must.OK(t, yk.SetMetadata(own, &pivgo.Metadata{ManagementKey: &own}))
	must.OK(t, yk.Close())
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, hsmtest.NewScript(t, hsmtest.PIN(vcard.DefaultPIN)))
	r.forgotten(t, "after all")
}

// TestDoesNotAttest: what cannot be attested is said, and why.
func TestDoesNotAttest(t *testing.T) {
	r := newRig(t, vcard.Config{})
	slot := r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	r.card.Fail(vcard.Fault{INS: vcard.INSAttest, SW: 0x9000, Data: []byte("nonsense"), Times: 1})
	a, err := r.tok.Attest(t.Context(), slot.URI)
	must.OK(t, err)
	_, err = attest.Parse(a)
	want(t, err, attest.ErrMalformed)
	r.card.Fail(vcard.Fault{INS: vcard.INSAttest, SW: 0x6d00, Times: 1})
	_, err = r.tok.Attest(t.Context(), slot.URI)
	want(t, err, hsm.ErrUnsupported)
	if !r.card.SetKey(0x9a, newP256(t), 2, 1) {
		t.Fatal("no such key")
	}
	_, err = r.tok.Attest(t.Context(), slot.URI)
	want(t, err, hsm.ErrUnsupported)
	if hint.Of(err) == "" {
		t.Errorf("%v: no hint", err)
	}
}

// TestFaults: a card that fails at any step of an operation gives an error,
// loses no try that nobody typed, and is left with nothing proved.
func TestFaults(t *testing.T) {
	r := newRig(t, vcard.Config{})
	r.generate(t, hsm.GenerateOptions{Slot: "9a"}, typing(t))
	s := r.signer(t, "9a", typing(t))
	must.OK(t, sign(s))
	for _, ins := range []byte{vcard.INSAuthenticate, vcard.INSGetMetadata, vcard.INSGetSerial, vcard.INSVerify,
		vcard.INSSelect} {
		for _, f := range []vcard.Fault{{SW: 0x6f00}, {SW: 0x9000, Data: []byte{0x7c, 0x82, 0xff, 0xff}}, {SW: 0x6985}} {
			f.INS, f.Times = ins, 1
			r.card.Fail(f)
			err := sign(s)
			r.card.Heal()
			r.forgotten(t, "after a fault")
			if left, _ := r.card.PINRetries(); left != 3 {
				t.Fatalf("%02x %04x: %d tries left", ins, f.SW, left)
			}
			if err == nil && ins == vcard.INSAuthenticate {
				t.Errorf("%02x %04x: signed", ins, f.SW)
			}
			must.OK(t, r.tok.Unlock(t.Context(), typing(t)))
			if err := sign(r.signer(t, "9a", typing(t))); err != nil {
				t.Fatalf("after %02x %04x: %v", ins, f.SW, err)
			}
		}
	}
}
