package consent

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // the digests that Sign and verify use
	_ "crypto/sha512"
	"errors"
	"fmt"
	"strings"
)

// ErrSignature says that a signature is not the key's over this text.
var ErrSignature = errors.New("the signature is not the key's over this text")

// ErrFormerKey says that a signature is good, and that its key is not the enrollment's now.
// It was until a renewal, or never: anybody can make a key and a certificate for it.
var ErrFormerKey = errors.New("signed by a key that the enrollment does not have now")

// Sign signs a [Statement]'s text or another one with a domain: ECDSA with the digest of the curve's size,
// RSASSA-PSS with SHA-256, Ed25519 (RFC 8032).
func Sign(key crypto.Signer, text string) ([]byte, error) {
	digest, opts, err := digestOf(key.Public(), text)
	if err != nil {
		return nil, err
	}
	return key.Sign(rand.Reader, digest, opts)
}

// VerifyText checks a signature of [Sign] over a text that begins with domain. Errors wrap
// [ErrSignature].
func VerifyText(pub crypto.PublicKey, domain, text string, signature []byte) error {
	digest, opts, err := digestOf(pub, text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	good := false
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(k, digest, signature)
	case ed25519.PublicKey:
		good = ed25519.Verify(k, digest, signature)
	case *rsa.PublicKey:
		good = rsa.VerifyPSS(k, opts.HashFunc(), digest, signature,
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	if !good || !strings.HasPrefix(text, domain) {
		return ErrSignature
	}
	return nil
}

func digestOf(pub crypto.PublicKey, text string) ([]byte, crypto.SignerOpts, error) {
	var opts crypto.SignerOpts
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		opts = crypto.SHA256
		if k.Curve.Params().BitSize > 256 {
			opts = crypto.SHA384
		}
	case ed25519.PublicKey:
		return []byte(text), crypto.Hash(0), nil
	case *rsa.PublicKey:
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	default:
		return nil, nil, fmt.Errorf("a key of type %T cannot sign texts", pub)
	}
	h := opts.HashFunc().New()
	_, _ = h.Write([]byte(text)) // a hash takes everything (hash.Hash)
	return h.Sum(nil), opts, nil
}
