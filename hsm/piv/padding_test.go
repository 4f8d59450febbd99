package piv

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// hash256 is SHA-256 as an option.
type hash256 struct{}

func (hash256) HashFunc() crypto.Hash { return crypto.SHA256 }

// TestPadding lets crypto/rsa judge blocks that are padded here, for moduli of
// all lengths modulo 8.
func TestPadding(t *testing.T) {
	for bits := 1024; bits < 1033; bits++ {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		raw := func(block []byte) []byte {
			m := new(big.Int).SetBytes(block)
			return m.Exp(m, k.D, k.N).FillBytes(make([]byte, k.Size()))
		}
		for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384} {
			digest := h.New().Sum(nil)
			block, err := prepare(rand.Reader, k.Public(), digest, h)
			if err != nil {
				t.Fatal(err)
			}
			if err := rsa.VerifyPKCS1v15(&k.PublicKey, h, digest, raw(block)); err != nil || len(block) != k.Size() {
				t.Errorf("%d bits, %s, PKCS #1: %v, %d bytes", bits, h, err, len(block))
			}
			for _, salt := range []int{rsa.PSSSaltLengthAuto, rsa.PSSSaltLengthEqualsHash, 0, 1, 20} {
				o := &rsa.PSSOptions{SaltLength: salt, Hash: h}
				block, err := prepare(nil, k.Public(), digest, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := rsa.VerifyPSS(&k.PublicKey, h, digest, raw(block), o); err != nil || len(block) != k.Size() {
					t.Errorf("%d bits, %s, salt %d: %v, %d bytes", bits, h, salt, err, len(block))
				}
			}
		}
	}
}

func TestPaddingRefuses(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		digest []byte
		opts   crypto.SignerOpts
	}{
		"short digest":  {make([]byte, 31), crypto.SHA256},
		"too long":      {make([]byte, 120), crypto.Hash(0)},
		"unknown hash":  {make([]byte, 20), crypto.SHA1},
		"salt too long": {make([]byte, 64), &rsa.PSSOptions{SaltLength: 100, Hash: crypto.SHA512}},
		"negative salt": {make([]byte, 32), &rsa.PSSOptions{SaltLength: -7, Hash: crypto.SHA256}},
		"PSS, no hash":  {make([]byte, 32), &rsa.PSSOptions{}},
	} {
		if _, err := prepare(rand.Reader, k.Public(), c.digest, c.opts); err == nil {
			t.Errorf("%s: padded", name)
		}
	}
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(nil, pub, make([]byte, 64), crypto.SHA512); !errors.Is(err, hsm.ErrUnsupported) {
		t.Errorf("Ed25519ph: %v", err)
	}
}

// TestFit: digests longer and shorter than the curve.
func TestFit(t *testing.T) {
	for _, c := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
			t.Run(fmt.Sprint(c.Params().Name, h), func(t *testing.T) {
				digest := h.New().Sum(nil)
				block, err := prepare(nil, k.Public(), digest, h)
				if err != nil || len(block) != c.Params().BitSize/8 {
					t.Fatalf("%d bytes, %v", len(block), err)
				}
				sig, err := ecdsa.SignASN1(rand.Reader, k, block)
				if err != nil {
					t.Fatal(err)
				}
				if !verifies(k.Public(), digest, sig, h) {
					t.Error("does not verify")
				}
			})
		}
	}
}
