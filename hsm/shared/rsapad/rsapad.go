// Package rsapad pads what an RSA key is to sign, for tokens that do the bare RSA
// operation only (RFC 8017 section 9). crypto/rsa does this for keys in memory alone.
package rsapad

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"fmt"
	"io"

	_ "crypto/sha1" // the hashes that a caller may name
	_ "crypto/sha256"
	_ "crypto/sha512"
)

// DigestInfo returns the DER prefix of a digest (section 9.2, note 1), nil for a hash
// that has none here.
func DigestInfo(h crypto.Hash) []byte {
	switch h {
	case crypto.SHA1:
		return []byte{0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14}
	case crypto.SHA256:
		return sha2(1, 0x20)
	case crypto.SHA384:
		return sha2(2, 0x30)
	case crypto.SHA512:
		return sha2(3, 0x40)
	}
	return nil
}

// sha2 is the prefix for 2.16.840.1.101.3.4.2.id, a digest of n bytes.
func sha2(id, n byte) []byte {
	return []byte{
		0x30, 0x11 + n, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, id, 0x05, 0x00, 0x04, n,
	}
}

// PKCS1 is EMSA-PKCS1-v1_5 (section 9.2) of a digest with the prefix of its hash, none
// where the caller brings its own. [rsa.ErrMessageTooLong] if the key is too short.
func PKCS1(k *rsa.PublicKey, prefix, digest []byte) ([]byte, error) {
	size := k.Size()
	n := len(prefix) + len(digest)
	if n+11 > size {
		return nil, rsa.ErrMessageTooLong
	}
	em := make([]byte, size)
	em[1] = 1
	for i := 2; i < size-n-1; i++ {
		em[i] = 0xff
	}
	copy(em[size-n:], prefix)
	copy(em[size-len(digest):], digest)
	return em, nil
}

// SaltLength resolves [rsa.PSSOptions].SaltLength to bytes, as crypto/rsa does.
// [rsa.ErrMessageTooLong] if the key is too short for it.
func SaltLength(k *rsa.PublicKey, h crypto.Hash, wanted int) (int, error) {
	longest := (k.N.BitLen()+6)/8 - 2 - h.Size()
	salt := wanted
	switch wanted {
	case rsa.PSSSaltLengthAuto:
		salt = longest
	case rsa.PSSSaltLengthEqualsHash:
		salt = h.Size()
	}
	if salt < 0 || salt > longest {
		return 0, fmt.Errorf("an RSA-PSS salt of %d bytes for a key of %d bits: %w", salt, k.N.BitLen(),
			rsa.ErrMessageTooLong)
	}
	return salt, nil
}

// PSS is EMSA-PSS (section 9.1.1) with MGF1 of the same hash and a random salt of salt
// bytes, see [SaltLength]. A nil random is the system's. The block is as long as the
// modulus.
func PSS(random io.Reader, k *rsa.PublicKey, h crypto.Hash, digest []byte, salt int) ([]byte, error) {
	bits := k.N.BitLen() - 1
	size := (bits + 7) / 8
	out := make([]byte, k.Size())
	em := out[len(out)-size:] // the first byte stays zero with 8k+1 bits
	split := size - h.Size() - 1
	db, tail := em[:split], em[split:split+h.Size()]
	seed := db[split-salt:]
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, err
	}
	db[split-salt-1] = 1
	w := h.New()
	w.Write(make([]byte, 8))
	w.Write(digest)
	w.Write(seed)
	w.Sum(tail[:0])
	mask(db, tail, h)
	db[0] &= 0xff >> (8*size - bits)
	em[size-1] = 0xbc
	return out, nil
}

// mask XORs MGF1(seed) (appendix B.2.1) into out.
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
