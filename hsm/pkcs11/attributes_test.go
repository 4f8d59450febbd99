//go:build cgo

package pkcs11

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/asn1"
	"errors"
	"fmt"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestCurveKey: points come wrapped in an OCTET STRING or bare; what is no
// point on the curve is no key.
func TestCurveKey(t *testing.T) {
	for _, c := range []struct {
		curve  elliptic.Curve
		params []byte
	}{{elliptic.P256(), paramsP256}, {elliptic.P384(), paramsP384}, {elliptic.P521(), paramsP521}} {
		key, err := ecdsa.GenerateKey(c.curve, rand.Reader)
		must.OK(t, err)
		bare, err := key.PublicKey.Bytes()
		must.OK(t, err)
		wrapped, err := asn1.Marshal(bare)
		must.OK(t, err)
		for _, point := range [][]byte{bare, wrapped} {
			if got := curveKey(c.params, point); !hsm.SameKey(&key.PublicKey, got) {
				t.Errorf("%s: %d bytes gave %v", c.curve.Params().Name, len(point), got)
			}
		}
		off := append([]byte{}, bare...)
		off[len(off)-1] ^= 1
		for _, point := range [][]byte{nil, {4}, off, bare[1:], append(wrapped, 0), make([]byte, len(bare))} {
			if got := curveKey(c.params, point); got != nil {
				t.Errorf("%s: %x gave %v", c.curve.Params().Name, point, got)
			}
		}
		if got := curveKey([]byte{6, 1, 1}, bare); got != nil {
			t.Errorf("an unknown curve gave %v", got)
		}
	}
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	for _, params := range [][]byte{paramsEd25519, paramsEd25519OID} {
		if got := curveKey(params, append([]byte{4, 32}, pub...)); !hsm.SameKey(pub, got) {
			t.Errorf("Ed25519 gave %v", got)
		}
	}
}

func FuzzCurveKey(f *testing.F) {
	f.Add(paramsP256, make([]byte, 67))
	f.Add(paramsEd25519, make([]byte, 34))
	f.Fuzz(func(t *testing.T, params, point []byte) {
		if key := curveKey(params, point); key != nil {
			if _, err := keyID(key); err != nil {
				t.Fatal(err)
			}
		}
		_ = rsaKey(params, point)
		_, _ = number(params), unwrap(point, 65)
	})
}

func TestFault(t *testing.T) {
	for code, want := range map[uint]error{
		p11.CKR_TOKEN_NOT_PRESENT: hsm.ErrRemoved, p11.CKR_DEVICE_REMOVED: hsm.ErrRemoved, p11.CKR_PIN_INCORRECT: hsm.ErrPINIncorrect,
		p11.CKR_PIN_LOCKED: hsm.ErrPINLocked, p11.CKR_PIN_LEN_RANGE: hsm.ErrPINInvalid,
		p11.CKR_USER_PIN_NOT_INITIALIZED: hsm.ErrPINNotSet,
		p11.CKR_USER_NOT_LOGGED_IN:       hsm.ErrPINRequired, p11.CKR_FUNCTION_CANCELED: hsm.ErrCancelled,
		p11.CKR_SESSION_COUNT:     hsm.ErrBusy,
		p11.CKR_MECHANISM_INVALID: hsm.ErrUnsupported, p11.CKR_GENERAL_ERROR: hsm.ErrModule,
		p11.CKR_PIN_EXPIRED: hsm.ErrModule,
		0x80000001:          hsm.ErrModule,
	} {
		cause := p11.Error(code)
		err := fault("sign", fmt.Errorf("deeper: %w", cause))
		if !errors.Is(err, want) || !errors.Is(err, cause) {
			t.Errorf("%#x: %v, want %v", code, err, want)
		}
		if again := fault("more", err); again != err {
			t.Errorf("%#x is wrapped twice: %v", code, again)
		}
	}
	plain := errors.New("plain")
	if fault("x", plain) != plain || fault("x", nil) != nil {
		t.Error("what is not PKCS#11's was touched")
	}
}
