package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

func pssOptions(salt int) *rsa.PSSOptions {
	return &rsa.PSSOptions{SaltLength: salt, Hash: crypto.SHA256}
}

func verifyPSS(pub crypto.PublicKey, digest, sig []byte, o *rsa.PSSOptions) error {
	return rsa.VerifyPSS(pub.(*rsa.PublicKey), o.Hash, digest, sig, o)
}

// TestPadPSS: raw RSA over our padding is what crypto/rsa verifies, at every
// remainder of the key's length by eight.
func TestPadPSS(t *testing.T) {
	for bits := 1024; bits < 1032; bits++ {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384} {
			w := h.New()
			fmt.Fprint(w, bits)
			digest := w.Sum(nil)
			for _, wanted := range []int{rsa.PSSSaltLengthAuto, rsa.PSSSaltLengthEqualsHash, 1, 20} {
				salt, err := saltLength(&key.PublicKey, h, wanted)
				if err != nil {
					t.Fatal(err)
				}
				em, err := padPSS(&key.PublicKey, h, digest, salt)
				if err != nil {
					t.Fatal(err)
				}
				sig := new(big.Int).Exp(new(big.Int).SetBytes(em), key.D, key.N).FillBytes(make([]byte, key.Size()))
				if err := rsa.VerifyPSS(&key.PublicKey, h, digest, sig, &rsa.PSSOptions{SaltLength: salt}); err != nil {
					t.Errorf("%d bits, %s, salt %d: %v", bits, h, salt, err)
				}
				again, err := padPSS(&key.PublicKey, h, digest, salt)
				if err != nil || salt > 1 && bytes.Equal(em, again) { // one byte is the same now and then
					t.Errorf("%d bits, salt %d: the salt is not random (%v)", bits, salt, err)
				}
			}
			if _, err := saltLength(&key.PublicKey, h, 127); !errors.Is(err, hsm.ErrUnsupported) {
				t.Errorf("a salt longer than the key allows: %v", err)
			}
		}
	}
}
