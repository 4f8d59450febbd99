package vcard

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"math/big"
	"slices"
	"time"
)

// touchCache is how long a touch counts with the cached policy (Yubico).
const touchCache = 15 * time.Second

// touch waits for a touch. The card answers nothing else meanwhile, but its
// state can be looked at.
func (c *Card) touch(slot byte, done <-chan struct{}) bool {
	ask := c.config.Touch
	c.mu.Unlock()
	defer c.mu.Lock()
	return ask(slot, done)
}

// authenticate is GENERAL AUTHENTICATE (SP 800-73-4 part 2 section 3.2.4).
func (c *Card) authenticate(cmd command, fresh bool, done <-chan struct{}) ([]byte, uint16) {
	outer, err := parseTLV(cmd.data)
	template, has := find(outer, 0x7c)
	if err != nil || !has {
		return nil, swWrongData
	}
	objects, err := parseTLV(template)
	if err != nil {
		return nil, swWrongData
	}
	if cmd.p2 == refManagement {
		return c.authManagement(cmd, objects)
	}
	k, ok := c.keys[cmd.p2]
	if !ok || k.alg != cmd.p1 {
		return nil, swWrongData
	}
	if sw := c.permit(cmd.p2, k, fresh, done); sw != swOK {
		return nil, sw
	}
	challenge, has := find(objects, 0x81)
	if !has {
		return nil, swWrongData
	}
	out, err := sign(k.private, challenge)
	if err != nil {
		return nil, swWrongData
	}
	if c.config.Ways.WrongWith == k.alg {
		out[len(out)-1] ^= 1
	}
	return put(0x7c, put(0x82, out)), swOK
}

// permit applies the PIN and touch policies of a key.
func (c *Card) permit(slot byte, k key, fresh bool, done <-chan struct{}) uint16 {
	if k.pin == pinOnce && !c.verified || k.pin == pinAlways && !fresh {
		return swNotSatisfied
	}
	if k.touch == touchNever || k.touch == touchCached && time.Now().Before(c.touchedTill) {
		return swOK
	}
	if !c.touch(slot, done) {
		return swNotSatisfied
	}
	if k.touch == touchCached {
		c.touchedTill = time.Now().Add(touchCache)
	}
	return swOK
}

// sign applies the private key to what the host prepared: a digest, an
// Ed25519 message, or an RSA block that is padded already.
func sign(private crypto.PrivateKey, in []byte) ([]byte, error) {
	switch k := private.(type) {
	case *ecdsa.PrivateKey:
		return ecdsa.SignASN1(rand.Reader, k, in)
	case ed25519.PrivateKey:
		return ed25519.Sign(k, in), nil
	case *rsa.PrivateKey:
		m := new(big.Int).SetBytes(in)
		if len(in) != k.Size() || m.Cmp(k.N) >= 0 {
			return nil, rsa.ErrMessageTooLong
		}
		return power(k, m).FillBytes(make([]byte, k.Size())), nil
	}
	return nil, errTLV
}

// power is m to the private exponent, prime by prime, which takes a fraction of the time.
func power(k *rsa.PrivateKey, m *big.Int) *big.Int {
	out, product := new(big.Int), big.NewInt(1)
	for _, p := range k.Primes {
		d := new(big.Int).Mod(k.D, new(big.Int).Sub(p, big.NewInt(1)))
		step := new(big.Int).Exp(m, d, p)
		step.Sub(step, out).Mul(step, new(big.Int).ModInverse(product, p)).Mod(step, p)
		out.Add(out, step.Mul(step, product))
		product.Mul(product, p)
	}
	return out
}

// metadata is Yubico's GET METADATA.
func (c *Card) metadata(cmd command) ([]byte, uint16) {
	switch cmd.p2 {
	case refPIN:
		return c.pin.metadata(), swOK
	case refPUK:
		return c.puk.metadata(), swOK
	case refManagement:
		return slices.Concat(put(0x01, []byte{c.management.alg}), put(0x02, []byte{0, touchNever}),
			put(0x05, flag(c.management.isDefault))), swOK
	}
	k, ok := c.keys[cmd.p2]
	switch {
	case !ok && c.config.EmptyPolicies:
		return put(0x02, []byte{pinOnce, touchNever}), swOK
	case !ok:
		return nil, swReferenceNotFound
	}
	return slices.Concat(put(0x01, []byte{k.alg}), put(0x02, []byte{k.pin, k.touch}), put(0x03, []byte{k.origin}),
		put(0x04, publicTLV(publicOf(k.private)))), swOK
}

func (s *secret) metadata() []byte {
	return slices.Concat(put(0x01, []byte{0xff}), put(0x05, flag(s.isDefault)),
		put(0x06, []byte{byte(s.total), byte(s.left)}))
}

func flag(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}
