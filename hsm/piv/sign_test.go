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
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

// hash256 is SHA-256 as an option.
type hash256 struct{}

func (hash256) HashFunc() crypto.Hash { return crypto.SHA256 }

// TestRefusesToPad: input that no card may sign is refused.
func TestRefusesToPad(t *testing.T) {
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
