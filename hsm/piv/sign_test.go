package piv

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// hash256 is SHA-256 as an option.
type hash256 struct{}

func (hash256) HashFunc() crypto.Hash { return crypto.SHA256 }

// TestRefusesToPad: input that no card may sign is refused.
func TestRefusesToPad(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	must.OK(t, err)
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
	must.OK(t, err)
	if _, err := prepare(nil, pub, make([]byte, 64), crypto.SHA512); !errors.Is(err, hsm.ErrUnsupported) {
		t.Errorf("Ed25519ph: %v", err)
	}
}
