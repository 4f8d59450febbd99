package ticket

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// What is sealed to the help desk goes by HPKE (RFC 9180) in its base mode:
// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305. Nobody but the
// holder of the ticket's private key reads it; who sealed it is not proven.
const (
	sealKeySize = 32
	sealMagic   = "KHSP1"
)

// SealKey is the private half of a ticket's key for what is sent back sealed.
type SealKey struct{ key *ecdh.PrivateKey }

// NewSealKey makes a key of its own for one ticket.
func NewSealKey() (SealKey, error) {
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	return SealKey{k}, err
}

// ParseSealKey reads what [SealKey.Bytes] gave.
func ParseSealKey(b []byte) (SealKey, error) {
	k, err := ecdh.X25519().NewPrivateKey(b)
	return SealKey{k}, err
}

// Bytes is the private key: a secret.
func (k SealKey) Bytes() []byte { return k.key.Bytes() }

// Public is what a ticket carries in [Ticket.Seal].
func (k SealKey) Public() []byte { return k.key.PublicKey().Bytes() }

// PUKInfo binds a sealed PUK to its ticket and to the token with this serial number:
// it is the info of [Ticket.SealTo] and [SealKey.Open].
func PUKInfo(id, serial string) []byte {
	return []byte("kubehsm PUK of " + serial + " for ticket " + id)
}

// SealTo seals a secret to the ticket's key. info says what it is, and of which
// token: it is not hidden, but it must be the same to open. The text may travel
// in the open.
func (t Ticket) SealTo(secret, info []byte) (string, error) {
	pub, err := ecdh.X25519().NewPublicKey(t.Seal)
	if err != nil {
		return "", fmt.Errorf("the ticket carries no key to seal to: %w", err)
	}
	to, err := hpke.NewDHKEMPublicKey(pub)
	if err != nil {
		return "", err
	}
	sealed, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), info, secret)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	return sealMagic + "-" + alphabet().EncodeToString(sealed), nil
}

// IsSealed reports whether text begins as what [Ticket.SealTo] made.
func IsSealed(text []byte) bool {
	return begins(text, sealMagic)
}

// Open opens what was sealed to this key with the same info. The caller wipes
// what it gets.
func (k SealKey) Open(text, info []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(normalise(text), []byte(sealMagic))
	if !ok {
		return nil, fmt.Errorf("it does not begin with %s", sealMagic)
	}
	sealed, err := alphabet().AppendDecode(nil, rest)
	if err != nil {
		return nil, fmt.Errorf("a character of it is wrong or missing")
	}
	priv, err := hpke.NewDHKEMPrivateKey(k.key)
	if err != nil {
		return nil, err
	}
	secret, err := hpke.Open(priv, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), info, sealed)
	if err != nil {
		return nil,
			hint.Withf(fmt.Errorf("it was not sealed to this ticket's key, for this token, or was changed on its way"),
				"compare it with the original, and the token's serial number")
	}
	return secret, nil
}
