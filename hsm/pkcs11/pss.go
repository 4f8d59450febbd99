package pkcs11

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
)

// saltLength resolves [rsa.PSSOptions].SaltLength to bytes, as crypto/rsa does.
func saltLength(key *rsa.PublicKey, h crypto.Hash, wanted int) (int, error) {
	longest := (key.N.BitLen()+6)/8 - 2 - h.Size()
	salt := wanted
	switch wanted {
	case rsa.PSSSaltLengthAuto:
		salt = longest
	case rsa.PSSSaltLengthEqualsHash:
		salt = h.Size()
	}
	if salt < 0 || salt > longest {
		return 0, fmt.Errorf("an RSA-PSS salt of %d bytes for a key of %d bits: %w", salt, key.N.BitLen(), hsm.ErrUnsupported)
	}
	return salt, nil
}

// padPSS is EMSA-PSS-ENCODE (RFC 8017 section 9.1.1) with MGF1 of the same hash
// and a random salt of salt bytes, padded to the length of the modulus: the
// input for raw RSA.
func padPSS(key *rsa.PublicKey, h crypto.Hash, digest []byte, salt int) ([]byte, error) {
	bits := key.N.BitLen() - 1
	size := (bits + 7) / 8
	out := make([]byte, key.Size())
	em := out[len(out)-size:] // with 8k+1 bits the first byte stays zero
	split := size - h.Size() - 1
	db, tail := em[:split], em[split:split+h.Size()]
	seed := db[split-salt:]
	if _, err := rand.Read(seed); err != nil {
		return nil, err
	}
	db[split-salt-1] = 1
	w := h.New()
	w.Write(make([]byte, 8))
	w.Write(digest)
	w.Write(seed)
	copy(tail, w.Sum(nil))
	mask(db, tail, h)
	db[0] &= 0xff >> (8*size - bits)
	em[size-1] = 0xbc
	return out, nil
}

// mask XORs MGF1(seed) (RFC 8017 appendix B.2.1) into out.
func mask(out, seed []byte, h crypto.Hash) {
	for i, n := 0, uint32(0); i < len(out); n++ {
		w := h.New()
		w.Write(seed)
		w.Write(binary.BigEndian.AppendUint32(nil, n))
		for _, b := range w.Sum(nil) {
			if i == len(out) {
				break
			}
			out[i] ^= b
			i++
		}
	}
}
