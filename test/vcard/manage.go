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

// authManagement is GENERAL AUTHENTICATE with key 9B (SP 800-73-4 part 2
// appendix A.1): mutual with a witness, or the card's challenge alone.
func (c *Card) authManagement(cmd command, objects []tlv, done <-chan struct{}) ([]byte, uint16) {
	if cmd.p1 != c.management.alg && (cmd.p1 != 0 || c.management.alg != algTDES) {
		return nil, swWrongData
	}
	b := c.block()
	size := b.BlockSize()
	witness, hasWitness := find(objects, 0x80)
	challenge, hasChallenge := find(objects, 0x81)
	response, hasResponse := find(objects, 0x82)
	switch {
	case hasWitness && len(witness) == 0:
		c.witness = random(size)
		out := make([]byte, size)
		b.Encrypt(out, c.witness)
		return put(0x7c, put(0x80, out)), swOK
	case hasChallenge && len(challenge) == 0:
		c.challenge = random(size)
		return put(0x7c, put(0x81, c.challenge)), swOK
	case hasWitness && len(challenge) == size:
		want := c.witness
		c.witness = nil
		c.managed = false // a wrong PIN too ends the proof of a right one
		if want == nil || subtle.ConstantTimeCompare(want, witness) != 1 || !c.managementTouch(done) {
			return nil, swNotSatisfied
		}
		out := make([]byte, size)
		b.Encrypt(out, challenge)
		c.managed = true
		return put(0x7c, put(0x82, out)), swOK
	case hasResponse && len(response) == size:
		want := c.challenge
		c.challenge = nil
		if want == nil {
			return nil, swConditions
		}
		out := make([]byte, size)
		b.Encrypt(out, want)
		if !bytes.Equal(out, response) || !c.managementTouch(done) {
			return nil, swNotSatisfied
		}
		c.managed = true
		return nil, swOK
	}
	return nil, swWrongData
}

func (c *Card) managementTouch(done <-chan struct{}) bool {
	return !c.management.touch || c.touch(refManagement, done)
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// setManagement is Yubico's SET MANAGEMENT KEY; P2 FE asks for touches.
func (c *Card) setManagement(cmd command) uint16 {
	switch {
	case !c.managed:
		return swNotSatisfied
	case cmd.p1 != 0xff || cmd.p2 < 0xfe || len(cmd.data) < 3 || cmd.data[1] != refManagement:
		return swWrongData
	}
	alg, key := cmd.data[0], cmd.data[3:]
	if int(cmd.data[2]) != len(key) || len(key) != managementLength(alg) || len(key) == 0 {
		return swWrongData
	}
	if alg != algTDES && !c.since(5, 4) {
		return swWrongData
	}
	c.management.alg, c.management.key = alg, bytes.Clone(key)
	c.management.touch, c.management.isDefault = cmd.p2 == 0xfe, bytes.Equal(key, DefaultManagementKey())
	return swOK
}
