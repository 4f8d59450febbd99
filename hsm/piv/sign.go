package piv

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/rsapad"
)

// Signer implements [hsm.Token].
func (t *Token) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer, error) {
	id, slot, err := t.keyed(ctx, u)
	if err != nil {
		return nil, err
	}
	if want != nil && !hsm.SameKey(slot.Key.Public, want) {
		return nil, fmt.Errorf("slot %s: %w", slot.ID, hsm.ErrKeyMismatch)
	}
	code, ok := applet.AlgorithmCode(slot.Key.Algorithm)
	if !ok {
		return nil, fmt.Errorf("slot %s: keys of type %s: %w", slot.ID, slot.Key.Algorithm, hsm.ErrUnsupported)
	}
	return &signer{ctx: ctx, t: t, p: p, slot: id, code: code, key: *slot.Key}, nil
}

// signer is a key in a slot.
type signer struct {
	ctx  context.Context
	t    *Token
	p    hsm.Prompter
	slot byte
	code byte // algorithm
	key  hsm.Key
}

// signature is what the card made of a block. told tells that the card described the key,
// and that it is ours.
type signature struct {
	value []byte
	told  bool
}

// Public implements [crypto.Signer].
func (k *signer) Public() crypto.PublicKey { return k.key.Public }

// Sign implements [crypto.Signer]: ECDSA, RSA (PKCS #1 v1.5 and PSS, padded
// here) and Ed25519. The card's key is compared before, and the signature is
// checked after: a card whose slot cannot be read gives itself away by it.
func (k *signer) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	block, err := prepare(random, k.key.Public, digest, opts)
	if err != nil {
		return nil, err
	}
	for asks := 0; ; asks++ {
		sig, err := on(k.ctx, k.t.card, func(s *applet.Session) (signature, error) { return k.sign(s, block) })
		if errors.Is(err, errNeedPIN) && asks < 2 {
			if err := k.t.Unlock(k.ctx, k.p); err != nil {
				return nil, err
			}
			continue
		}
		if errors.Is(err, errNeedPIN) {
			err = hsm.ErrPINRequired
		}
		if err != nil {
			return nil, fmt.Errorf("sign with slot %s: %w", applet.SlotName(k.slot), err)
		}
		if verifies(k.key.Public, digest, sig.value, opts) {
			return sig.value, nil
		}
		if sig.told {
			return nil, hint.With(fmt.Errorf("slot %s: the card's %s signatures do not verify: %w",
				applet.SlotName(k.slot), k.key.Algorithm, hsm.ErrUnsupported),
				k.t.card.about().Can.Instead(k.key.Algorithm))
		}
		return nil, hint.With(
			fmt.Errorf("slot %s signed with another key: %w", applet.SlotName(k.slot), hsm.ErrKeyMismatch),
			"or the card's "+string(k.key.Algorithm)+" signatures do not verify, if the key is a new one: "+
				k.t.card.about().Can.Instead(k.key.Algorithm))
	}
}

// sign makes one signature within s.
func (k *signer) sign(s *applet.Session, block []byte) (signature, error) {
	key, told, err := k.current(s)
	if err != nil {
		return signature{}, err
	}
	// Slot 9e needs no PIN where nobody says otherwise (SP 800-73-4 part 1 table 4b).
	free := key.PIN == hsm.PINNever || key.PIN == hsm.PINDefault && k.slot == 0x9e
	if !free {
		if err := k.t.card.pin.prove(s); err != nil {
			return signature{}, err
		}
	}
	sig, err := k.use(s, key, block)
	if errors.Is(err, applet.NotSatisfied) && free && key.PIN == hsm.PINDefault {
		if err := k.t.card.pin.prove(s); err != nil {
			return signature{}, err
		}
		sig, err = k.use(s, key, block)
	}
	if errors.Is(err, applet.NotSatisfied) && key.Touch != hsm.TouchNever {
		err = hint.With(fmt.Errorf("%w: %w", hsm.ErrTouchTimeout, err), "touch the token while it blinks")
	}
	return signature{sig, told}, err
}

// current compares the key in the slot with ours and returns its policies of
// now. Without metadata only the certificate is compared, as an attestation
// takes as long as a signature; the check of the signature stands in.
func (k *signer) current(s *applet.Session) (key hsm.Key, told bool, err error) {
	now, told, err := s.Keys.Describe(k.slot)
	switch {
	case err != nil:
		return hsm.Key{}, told, err
	case !told:
		return k.key, false, nil
	case now == nil || !hsm.SameKey(now.Public, k.key.Public):
		return hsm.Key{}, true, hsm.ErrKeyMismatch
	}
	return *now, true, nil
}

// use applies the private key to block. PIN and touch are up to the caller.
func (k *signer) use(s *applet.Session, key hsm.Key, block []byte) ([]byte, error) {
	if key.Touch != hsm.TouchNever {
		defer k.t.card.touching(k.ctx, s, k.p)()
	}
	return s.Keys.Sign(k.slot, k.code, block)
}

// prepare makes what the card is given to sign: the digest, the message
// (Ed25519), or the padded block (RSA).
func prepare(random io.Reader, pub crypto.PublicKey, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	h := opts.HashFunc()
	if _, ed := pub.(ed25519.PublicKey); ed {
		if o, ok := opts.(*ed25519.Options); h != 0 || ok && o.Context != "" {
			return nil, fmt.Errorf("Ed25519 with a prehash or a context: %w", hsm.ErrUnsupported)
		}
		return digest, nil
	}
	if h != 0 && !h.Available() {
		return nil, fmt.Errorf("hash %d: %w", h, hsm.ErrUnsupported)
	}
	if h != 0 && len(digest) != h.Size() {
		return nil, fmt.Errorf("%d bytes are no %s digest", len(digest), h)
	}
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		size := (k.Curve.Params().BitSize + 7) / 8
		if len(digest) == 0 {
			return nil, errors.New("nothing to sign")
		}
		return fit(digest, size), nil
	case *rsa.PublicKey:
		return prepareRSA(random, k, h, digest, opts)
	}
	return nil, fmt.Errorf("keys of type %T: %w", pub, hsm.ErrUnsupported)
}

// prepareRSA pads a digest. A hash of 0 is a block that brings its own prefix, as
// crypto/rsa allows.
func prepareRSA(random io.Reader, k *rsa.PublicKey, h crypto.Hash, digest []byte,
	opts crypto.SignerOpts) ([]byte, error) {
	if o, ok := opts.(*rsa.PSSOptions); ok {
		if h == 0 || !h.Available() {
			return nil, fmt.Errorf("PSS with hash %d: %w", h, hsm.ErrUnsupported)
		}
		salt, err := rsapad.SaltLength(k, h, o.SaltLength)
		if err != nil {
			return nil, err
		}
		return rsapad.PSS(random, k, h, digest, salt)
	}
	prefix := rsapad.DigestInfo(h)
	if h != 0 && (prefix == nil || h == crypto.SHA1) {
		return nil, fmt.Errorf("%s signatures: %w", h, hsm.ErrUnsupported)
	}
	return rsapad.PKCS1(k, prefix, digest)
}

// fit cuts a digest to the curve's size (FIPS 186-5 section 6.4.1), or fills a
// shorter one from the left, as some firmware wants full length.
func fit(digest []byte, size int) []byte {
	if len(digest) >= size {
		return digest[:size]
	}
	return append(make([]byte, size-len(digest), size), digest...)
}

// verifies checks a signature with the public key.
func verifies(pub crypto.PublicKey, digest, sig []byte, opts crypto.SignerOpts) bool {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, digest, sig)
	case ed25519.PublicKey:
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(k, digest, sig)
	case *rsa.PublicKey:
		if o, ok := opts.(*rsa.PSSOptions); ok {
			return rsa.VerifyPSS(k, o.HashFunc(), digest, sig, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto}) == nil
		}
		return rsa.VerifyPKCS1v15(k, opts.HashFunc(), digest, sig) == nil
	}
	return false
}
