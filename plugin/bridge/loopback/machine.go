package loopback

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
)

// unbound is the label of all machines that the system does not identify.
const unbound = "unbound"

// machine is this computer and the user on it, as far as the system identifies them
// outside of the home folder. It is empty where the system does not.
type machine []byte

// thisMachine is the machine that runs us. As systemd asks of its machine id, the id itself
// is used nowhere: what is made of it is ours alone, see machine-id(5).
func thisMachine() machine { return machineOf(machineID(), os.Getuid()) }

func machineOf(id []byte, uid int) machine {
	if len(id) == 0 {
		return nil
	}
	own := hmac.New(sha256.New, id)
	own.Write([]byte("kubehsm bridge\x00" + strconv.Itoa(uid)))
	return own.Sum(nil)
}

// bound tells whether a copy of what is sealed here stays closed elsewhere.
func (m machine) bound() bool { return len(m) > 0 }

// label names the machine in the folder. It tells nothing of the machine's id.
func (m machine) label() (string, error) {
	if !m.bound() {
		return unbound, nil
	}
	b, err := hkdf.Key(sha256.New, m, nil, "label", 8)
	return hex.EncodeToString(b), err
}

// saltLength is that of the salt of one sealed key.
const saltLength = 16

// seal encrypts a server key, which belongs to the certificate of. The result begins with
// a random salt, of which and the machine the key that it is encrypted with is derived.
func (m machine) seal(key, of []byte) ([]byte, error) {
	salt := make([]byte, saltLength)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	aead, err := m.cipher(salt)
	if err != nil {
		return nil, err
	}
	return aead.Seal(salt, make([]byte, aead.NonceSize()), key, of), nil
}

// open undoes seal.
func (m machine) open(sealed, of []byte) ([]byte, error) {
	salt := sealed[:min(saltLength, len(sealed))]
	aead, err := m.cipher(salt)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, make([]byte, aead.NonceSize()), sealed[len(salt):], of)
}

// cipher has a key that is used once: for that reason the nonce is zero.
func (m machine) cipher(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, m, salt, "server key", 32)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
