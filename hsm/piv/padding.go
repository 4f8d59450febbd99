package piv

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/kubehsm/kubehsm/hsm"

	_ "crypto/sha256" // hashes that opts may name
	_ "crypto/sha512"
)

// digestInfo are the DER prefixes of RFC 8017 section 9.2, note 1.
func digestInfo(h crypto.Hash) ([]byte, bool) {
	switch h {
	case 0: // the caller brings its own, as crypto/rsa allows
		return nil, true
	case crypto.SHA256:
		return []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}, true
	case crypto.SHA384:
		return []byte{0x30, 0x41, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0x04, 0x30}, true
	case crypto.SHA512:
		return []byte{0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03, 0x05, 0x00, 0x04, 0x40}, true
	}
	return nil, false
}

// padPKCS1 is EMSA-PKCS1-v1_5 (RFC 8017 section 9.2).
func padPKCS1(k *rsa.PublicKey, h crypto.Hash, digest []byte) ([]byte, error) {
	prefix, ok := digestInfo(h)
	if !ok {
		return nil, fmt.Errorf("%s signatures: %w", h, hsm.ErrUnsupported)
	}
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

// padPSS is EMSA-PSS with MGF1 over the same hash (RFC 8017 section 9.1.1).
func padPSS(random io.Reader, k *rsa.PublicKey, h crypto.Hash, digest []byte, o *rsa.PSSOptions) ([]byte, error) {
	if h == 0 || !h.Available() {
		return nil, fmt.Errorf("PSS with hash %d: %w", h, hsm.ErrUnsupported)
	}
	bits := k.N.BitLen() - 1
	size := (bits + 7) / 8
	salt := o.SaltLength
	switch salt {
	case rsa.PSSSaltLengthAuto:
		salt = size - h.Size() - 2
	case rsa.PSSSaltLengthEqualsHash:
		salt = h.Size()
	}
	if salt < 0 || size < h.Size()+salt+2 {
		return nil, rsa.ErrMessageTooLong
	}
	em := make([]byte, size)
	db, hashed := em[:size-h.Size()-1], em[size-h.Size()-1:size-1]
	saltBytes := db[len(db)-salt:]
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, saltBytes); err != nil {
		return nil, err
	}
	w := h.New()
	w.Write(make([]byte, 8))
	w.Write(digest)
	w.Write(saltBytes)
	w.Sum(hashed[:0])
	db[len(db)-salt-1] = 1
	mask(db, h, hashed)
	db[0] &= 0xff >> (8*size - bits)
	em[size-1] = 0xbc
	// A modulus of 8n+1 bits leaves the first byte of the block empty.
	return append(make([]byte, k.Size()-size), em...), nil
}

// mask xors b with MGF1(seed) (RFC 8017 appendix B.2.1).
func mask(b []byte, h crypto.Hash, seed []byte) {
	for counter := uint32(0); len(b) > 0; counter++ {
		w := h.New()
		w.Write(seed)
		w.Write(binary.BigEndian.AppendUint32(nil, counter))
		for _, x := range w.Sum(nil) {
			if len(b) == 0 {
				return
			}
			b[0] ^= x
			b = b[1:]
		}
	}
}
