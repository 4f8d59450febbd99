package vcard

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"math/big"
)

// Algorithms of keys (SP 800-78-4 table 6-2 and Yubico's additions).
const (
	algRSA3072 = 0x05
	algRSA1024 = 0x06
	algRSA2048 = 0x07
	algP256    = 0x11
	algP384    = 0x14
	algRSA4096 = 0x16
	algEd25519 = 0xe0
)

// Policies and origins (Yubico).
const (
	pinNever, pinOnce, pinAlways              = 1, 2, 3
	touchNever, touchAlways, touchCached      = 1, 2, 3
	originGenerated, originImported      byte = 1, 2
)

// rsaBits are the lengths of RSA keys.
var rsaBits = map[byte]int{algRSA1024: 1024, algRSA2048: 2048, algRSA3072: 3072, algRSA4096: 4096}

const slotAttestation = 0xf9

// isSlot tells whether slot can hold a key.
func isSlot(slot byte) bool {
	switch slot {
	case 0x9a, 0x9c, 0x9d, 0x9e, slotAttestation:
		return true
	}
	return slot >= 0x82 && slot <= 0x95
}

// can tells whether the firmware knows alg.
func (c *Card) can(alg byte) bool {
	switch own := c.config.Ways.Algorithms; {
	case own != nil:
		return bytes.IndexByte(own, alg) >= 0
	case alg == algP384:
		return c.since(4, 0)
	case alg == algRSA3072 || alg == algRSA4096 || alg == algEd25519:
		return c.since(5, 7)
	}
	return alg == algP256 || rsaBits[alg] > 0
}

// policies reads tags AA and AB; 0 or absent is the slot's default.
func (c *Card) policies(slot byte, objects []tlv) (pin, touch byte, ok bool) {
	for tag, p := range map[byte]*byte{0xaa: &pin, 0xab: &touch} {
		if v, has := find(objects, tag); has {
			if len(v) != 1 || v[0] > 3 || tag == 0xab && v[0] == touchCached && !c.since(4, 3) {
				return 0, 0, false
			}
			*p = v[0]
		}
	}
	if (pin != 0 || touch != 0) && !(c.since(4, 0) && c.has(Policies)) {
		return 0, 0, false
	}
	if pin == 0 {
		pin = pinOnce
		switch slot {
		case 0x9c:
			pin = pinAlways
		case 0x9e:
			pin = pinNever
		}
	}
	if touch == 0 {
		touch = touchNever
	}
	return pin, touch, true
}

// generate is GENERATE ASYMMETRIC KEY PAIR (SP 800-73-4 part 2 section 3.3.2).
func (c *Card) generate(cmd command) ([]byte, uint16) {
	outer, err := parseTLV(cmd.data)
	template, has := find(outer, 0xac)
	if err != nil || !has {
		return nil, swWrongData
	}
	objects, err := parseTLV(template)
	alg, has := find(objects, 0x80)
	pin, touch, ok := c.policies(cmd.p2, objects)
	known := err == nil && has && len(alg) == 1 && c.can(alg[0]) && ok
	switch {
	case c.config.Ways.LooksFirst && !known:
		return nil, swWrongData
	case !c.managed:
		return nil, swNotSatisfied
	case !isSlot(cmd.p2):
		return nil, swWrongP1P2
	case !known:
		return nil, swWrongData
	}
	private, err := newKey(alg[0])
	if err != nil {
		return nil, 0x6f00
	}
	c.keys[cmd.p2] = key{alg[0], private, pin, touch, originGenerated}
	return put(0x7f49, publicTLV(publicOf(private))), swOK
}

func newKey(alg byte) (crypto.PrivateKey, error) {
	switch alg {
	case algP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case algP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case algEd25519:
		_, k, err := ed25519.GenerateKey(rand.Reader)
		return k, err
	}
	// Many small primes are weak and found in a fraction of the time.
	bits := rsaBits[alg]
	return rsa.GenerateMultiPrimeKey(rand.Reader, bits/512, bits) //nolint:staticcheck // for tests
}

func publicOf(private crypto.PrivateKey) crypto.PublicKey {
	return private.(crypto.Signer).Public()
}

// publicTLV encodes a public key (SP 800-73-4 part 2 table 11).
func publicTLV(pub crypto.PublicKey) []byte {
	switch k := pub.(type) {
	case *rsa.PublicKey:
		return append(put(0x81, k.N.Bytes()), put(0x82, big.NewInt(int64(k.E)).Bytes())...)
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic("vcard: " + err.Error()) // the key is our own
		}
		return put(0x86, point)
	case ed25519.PublicKey:
		return put(0x86, k)
	}
	return nil
}

func algorithmOf(private crypto.PrivateKey) (byte, bool) {
	switch k := private.(type) {
	case *rsa.PrivateKey:
		for alg, bits := range rsaBits {
			if bits == k.N.BitLen() {
				return alg, true
			}
		}
	case *ecdsa.PrivateKey:
		alg, ok := map[string]byte{"P-256": algP256, "P-384": algP384}[k.Params().Name]
		return alg, ok
	}
	return 0, false
}

// importKey is Yubico's IMPORT ASYMMETRIC KEY.
func (c *Card) importKey(cmd command) uint16 {
	objects, err := parseTLV(cmd.data)
	pin, touch, ok := c.policies(cmd.p2, objects)
	switch {
	case !c.managed:
		return swNotSatisfied
	case !isSlot(cmd.p2):
		return swWrongP1P2
	case err != nil || !ok || !c.can(cmd.p1):
		return swWrongData
	}
	private, ok := importedKey(cmd.p1, objects)
	if !ok {
		return swWrongData
	}
	c.keys[cmd.p2] = key{cmd.p1, private, pin, touch, originImported}
	return swOK
}

func importedKey(alg byte, objects []tlv) (crypto.PrivateKey, bool) {
	if curve, ok := map[byte]elliptic.Curve{algP256: elliptic.P256(), algP384: elliptic.P384()}[alg]; ok {
		d, _ := find(objects, 0x06)
		k, err := ecdsa.ParseRawPrivateKey(curve, d)
		return k, err == nil
	}
	one, number := big.NewInt(1), func(tag byte) *big.Int {
		b, _ := find(objects, tag)
		return new(big.Int).SetBytes(b)
	}
	p, q := number(0x01), number(0x02)
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	d := new(big.Int).ModInverse(big.NewInt(65537), phi)
	if d == nil {
		return nil, false
	}
	k := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537}, D: d, Primes: []*big.Int{p, q}}
	got, ok := algorithmOf(k)
	return k, ok && got == alg && k.Validate() == nil
}

// deleteKey is Yubico's MOVE KEY of the key P2 to P1 = FF, which deletes it.
func (c *Card) deleteKey(cmd command) uint16 {
	_, ok := c.keys[cmd.p2]
	switch {
	case !c.managed:
		return swNotSatisfied
	case !ok:
		return swReferenceNotFound
	case cmd.p1 != 0xff:
		return swWrongP1P2
	}
	delete(c.keys, cmd.p2)
	return swOK
}
