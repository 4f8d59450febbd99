package vcard

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/rand"
	"crypto/subtle"
)

// Algorithms of the management key.
const (
	algTDES   = 0x03
	algAES128 = 0x08
	algAES192 = 0x0a
	algAES256 = 0x0c
)

func managementLength(alg byte) int {
	switch alg {
	case algTDES, algAES192:
		return 24
	case algAES128:
		return 16
	case algAES256:
		return 32
	}
	return 0
}

func (c *Card) block() cipher.Block {
	var b cipher.Block
	var err error
	if c.management.alg == algTDES {
		b, err = des.NewTripleDESCipher(c.management.key)
	} else {
		b, err = aes.NewCipher(c.management.key)
	}
	if err != nil {
		panic("vcard: management key: " + err.Error()) // SET MANAGEMENT KEY has checked the length
	}
	return b
}

// authManagement is GENERAL AUTHENTICATE with key 9B (SP 800-73-4 part 2 appendix A.1): mutual,
// with a witness, as all tools do it.
func (c *Card) authManagement(cmd command, objects []tlv) ([]byte, uint16) {
	if cmd.p1 != c.management.alg && (cmd.p1 != 0 || c.management.alg != algTDES) {
		return nil, swWrongData
	}
	b := c.block()
	out := make([]byte, b.BlockSize())
	witness, has := find(objects, 0x80)
	challenge, _ := find(objects, 0x81)
	switch {
	case has && len(witness) == 0:
		c.witness = random(len(out))
		b.Encrypt(out, c.witness)
		return put(0x7c, put(0x80, out)), swOK
	case !has || len(challenge) != len(out):
		return nil, swWrongData
	}
	want := c.witness
	c.witness = nil
	c.managed = want != nil && subtle.ConstantTimeCompare(want, witness) == 1 // a wrong one ends the proof of a right one
	if !c.managed {
		return nil, swNotSatisfied
	}
	b.Encrypt(out, challenge)
	return put(0x7c, put(0x82, out)), swOK
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// setManagement is Yubico's SET MANAGEMENT KEY, without its touches.
func (c *Card) setManagement(cmd command) uint16 {
	switch {
	case !c.managed:
		return swNotSatisfied
	case cmd.p1 != 0xff || cmd.p2 != 0xff || len(cmd.data) < 3 || cmd.data[1] != refManagement:
		return swWrongData
	}
	alg, key := cmd.data[0], cmd.data[3:]
	if int(cmd.data[2]) != len(key) || len(key) != managementLength(alg) || len(key) == 0 ||
		alg != algTDES && !c.since(5, 4) {
		return swWrongData
	}
	c.management.alg, c.management.key = alg, bytes.Clone(key)
	c.management.isDefault = bytes.Equal(key, DefaultManagementKey())
	return swOK
}
