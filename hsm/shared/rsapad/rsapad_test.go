package rsapad

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"math/big"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestPadding lets crypto/rsa check the signatures that a bare RSA operation over our blocks
// gives, for moduli of all lengths modulo 8.
func TestPadding(t *testing.T) {
	for bits := 1024; bits < 1033; bits++ {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		must.OK(t, err)
		raw := func(block []byte) []byte {
			m := new(big.Int).SetBytes(block)
			return m.Exp(m, k.D, k.N).FillBytes(make([]byte, k.Size()))
		}
		for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384} {
			digest := h.New().Sum(nil)
			for _, wanted := range []int{rsa.PSSSaltLengthAuto, rsa.PSSSaltLengthEqualsHash, 0, 1, 20} {
				salt, err := SaltLength(&k.PublicKey, h, wanted)
				must.OK(t, err)
				block, err := PSS(nil, &k.PublicKey, h, digest, salt)
				must.OK(t, err)
				o := &rsa.PSSOptions{SaltLength: wanted}
				if err := rsa.VerifyPSS(&k.PublicKey, h, digest, raw(block), o); err != nil || len(block) != k.Size() {
					t.Errorf("%d bits, %s, salt %d: %v, %d bytes", bits, h, wanted, err, len(block))
				}
				again, err := PSS(nil, &k.PublicKey, h, digest, salt)
				if err != nil || salt > 1 && bytes.Equal(block, again) { // a salt of one byte is the same now and then
					t.Errorf("%d bits, salt %d: the salt is not random (%v)", bits, salt, err)
				}
			}
		}
		for _, h := range []crypto.Hash{crypto.SHA1, crypto.SHA256, crypto.SHA384, crypto.SHA512} {
			digest := h.New().Sum(nil)
			block, err := PKCS1(&k.PublicKey, DigestInfo(h), digest)
			must.OK(t, err)
			if err := rsa.VerifyPKCS1v15(&k.PublicKey, h, digest, raw(block)); err != nil || len(block) != k.Size() {
				t.Errorf("%d bits, %s, PKCS #1: %v, %d bytes", bits, h, err, len(block))
			}
		}
	}
}

// TestTooLong: a key that is too short for the digest and salt is refused.
func TestTooLong(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	must.OK(t, err)
	for _, salt := range []int{127, -7} {
		if _, err := SaltLength(&k.PublicKey, crypto.SHA256, salt); !errors.Is(err, rsa.ErrMessageTooLong) {
			t.Errorf("a salt of %d bytes: %v", salt, err)
		}
	}
	if _, err := PKCS1(&k.PublicKey, nil, make([]byte, 118)); !errors.Is(err, rsa.ErrMessageTooLong) {
		t.Errorf("118 bytes: %v", err)
	}
	if DigestInfo(crypto.MD5) != nil {
		t.Error("a hash that nobody is to use has a prefix")
	}
}
