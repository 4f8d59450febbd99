//go:build cgo

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/rsapad"
)

// attempt is one way to have a token sign: a mechanism and what it is fed.
type attempt struct {
	mechanism *p11.Mechanism
	data      []byte
}

// scheme is a signature to be made: attempts in order of preference, and how
// the token's answer becomes the signature that Go expects.
type scheme struct {
	attempts []attempt
	finish   func([]byte) ([]byte, error)
	verify   func(sig []byte) error
}

func asIs(sig []byte) ([]byte, error) { return sig, nil }

// schemeFor plans a signature with the key pub over digest.
func schemeFor(pub crypto.PublicKey, digest []byte, opts crypto.SignerOpts) (scheme, error) {
	h := opts.HashFunc()
	if key, ok := pub.(ed25519.PublicKey); ok {
		if h != 0 {
			return scheme{}, fmt.Errorf("pre-hashed Ed25519: %w", hsm.ErrUnsupported)
		}
		return scheme{
			attempts: []attempt{{p11.NewMechanism(ckmEdDSA, nil), digest}}, finish: asIs,
			verify: func(sig []byte) error { return ed25519.VerifyWithOptions(key, digest, sig, &ed25519.Options{}) },
		}, nil
	}
	if !h.Available() {
		return scheme{}, fmt.Errorf("hash %d: %w", h, hsm.ErrUnsupported)
	}
	if len(digest) != h.Size() {
		return scheme{}, fmt.Errorf("a digest of %d bytes is no %s", len(digest), h)
	}
	switch key := pub.(type) {
	case *ecdsa.PublicKey:
		return ecdsaScheme(key, digest), nil
	case *rsa.PublicKey:
		if pss, ok := opts.(*rsa.PSSOptions); ok {
			return pssScheme(key, digest, pss)
		}
		return pkcs1Scheme(key, digest, h)
	}
	return scheme{}, fmt.Errorf("signing with %T: %w", pub, hsm.ErrUnsupported)
}

// ecdsaScheme: the token gives r‖s, Go wants a SEQUENCE of both (RFC 3279
// section 2.2.3). FIPS 186-4 takes the leftmost bits of a longer digest; some
// tokens refuse it, so it is cut here.
func ecdsaScheme(key *ecdsa.PublicKey, digest []byte) scheme {
	size := (key.Curve.Params().BitSize + 7) / 8
	cut := digest
	if key.Curve.Params().BitSize%8 == 0 && len(cut) > size {
		cut = cut[:size]
	}
	return scheme{
		attempts: []attempt{{p11.NewMechanism(p11.CKM_ECDSA, nil), cut}},
		finish: func(raw []byte) ([]byte, error) {
			if len(raw) != 2*size {
				return nil, fmt.Errorf("%w: an ECDSA signature of %d bytes", hsm.ErrModule, len(raw))
			}
			return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:size]), new(big.Int).SetBytes(raw[size:])})
		},
		verify: func(sig []byte) error {
			if !ecdsa.VerifyASN1(key, digest, sig) {
				return errors.New("ECDSA verification failed")
			}
			return nil
		},
	}
}

func pkcs1Scheme(key *rsa.PublicKey, digest []byte, h crypto.Hash) (scheme, error) {
	prefix := rsapad.DigestInfo(h)
	if prefix == nil {
		return scheme{}, fmt.Errorf("RSA PKCS#1 v1.5 with %s: %w", h, hsm.ErrUnsupported)
	}
	return scheme{
		attempts: []attempt{{p11.NewMechanism(p11.CKM_RSA_PKCS, nil), append(prefix, digest...)}},
		finish:   asIs,
		verify:   func(sig []byte) error { return rsa.VerifyPKCS1v15(key, h, digest, sig) },
	}, nil
}

// pssParams names a hash and its mask function.
var pssParams = map[crypto.Hash]struct{ hash, mgf uint }{
	crypto.SHA1:   {p11.CKM_SHA_1, p11.CKG_MGF1_SHA1},
	crypto.SHA256: {p11.CKM_SHA256, p11.CKG_MGF1_SHA256},
	crypto.SHA384: {p11.CKM_SHA384, p11.CKG_MGF1_SHA384},
	crypto.SHA512: {p11.CKM_SHA512, p11.CKG_MGF1_SHA512},
}

// pssScheme has the token pad, or pads here where it cannot.
func pssScheme(key *rsa.PublicKey, digest []byte, o *rsa.PSSOptions) (scheme, error) {
	h := o.HashFunc()
	params, ok := pssParams[h]
	if !ok {
		return scheme{}, fmt.Errorf("RSA-PSS with %s: %w", h, hsm.ErrUnsupported)
	}
	salt, err := rsapad.SaltLength(key, h, o.SaltLength)
	if err != nil {
		return scheme{}, fmt.Errorf("%w: %w", hsm.ErrUnsupported, err)
	}
	padded, err := rsapad.PSS(nil, key, h, digest, salt)
	if err != nil {
		return scheme{}, err
	}
	return scheme{
		attempts: []attempt{
			{p11.NewMechanism(p11.CKM_RSA_PKCS_PSS, p11.NewPSSParams(params.hash, params.mgf, uint(salt))), digest},
			{p11.NewMechanism(p11.CKM_RSA_X_509, nil), padded},
		},
		finish: asIs,
		verify: func(sig []byte) error {
			return rsa.VerifyPSS(key, h, digest, sig, &rsa.PSSOptions{SaltLength: salt, Hash: h})
		},
	}, nil
}
