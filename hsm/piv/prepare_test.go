package piv

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"math/big"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// FuzzPrepare: what a card is given to sign for any digest and options, or a refusal. A
// card that signs it makes a signature that verifies.
func FuzzPrepare(f *testing.F) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(f, err)
	curve := map[byte]*ecdsa.PrivateKey{}
	for i, c := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		if curve[byte(i)], err = ecdsa.GenerateKey(c, rand.Reader); err != nil {
			f.Fatal(err)
		}
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must.OK(f, err)
	for kind := range byte(4) {
		f.Add(kind, make([]byte, 32), uint(crypto.SHA256), false, 0)
		f.Add(kind, make([]byte, 64), uint(crypto.SHA512), true, rsa.PSSSaltLengthEqualsHash)
		f.Add(kind, []byte("text"), uint(0), false, 0)
		f.Add(kind, []byte{}, uint(999), true, -7)
	}
	f.Fuzz(func(t *testing.T, kind byte, digest []byte, hash uint, pss bool, salt int) {
		var opts crypto.SignerOpts = crypto.Hash(hash)
		if pss {
			opts = &rsa.PSSOptions{SaltLength: salt, Hash: crypto.Hash(hash)}
		}
		var sig []byte
		var pub crypto.PublicKey
		switch kind % 4 {
		case 0, 1:
			key := curve[kind%4]
			block, err := prepare(rand.Reader, key.Public(), digest, opts)
			if err != nil {
				return
			}
			if len(block) != (key.Params().BitSize+7)/8 {
				t.Fatalf("a block of %d bytes", len(block))
			}
			pub = key.Public()
			if sig, err = ecdsa.SignASN1(rand.Reader, key, block); err != nil {
				t.Fatal(err)
			}
		case 2:
			block, err := prepare(rand.Reader, edKey.Public(), digest, opts)
			if err != nil {
				return
			}
			pub, sig = edKey.Public(), ed25519.Sign(edKey, block)
		case 3:
			block, err := prepare(rand.Reader, rsaKey.Public(), digest, opts)
			if err != nil {
				return
			}
			if len(block) != rsaKey.Size() {
				t.Fatalf("a block of %d bytes", len(block))
			}
			pub = rsaKey.Public()
			sig = new(big.Int).Exp(new(big.Int).SetBytes(block), rsaKey.D, rsaKey.N).FillBytes(make([]byte, rsaKey.Size()))
		}
		if !verifies(pub, digest, sig, opts) {
			t.Errorf("the signature of %x with hash %d is wrong", digest, hash)
		}
	})
}
