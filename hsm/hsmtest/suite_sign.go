package hsmtest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// digest hashes text, or returns it for the hash 0 (Ed25519).
func digest(h crypto.Hash, text string) []byte {
	if h == 0 {
		return []byte(text)
	}
	w := h.New()
	w.Write([]byte(text))
	return w.Sum(nil)
}

// verify checks a signature.
func verify(pub crypto.PublicKey, digest, sig []byte, o crypto.SignerOpts) error {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		if !ecdsa.VerifyASN1(k, digest, sig) {
			return fmt.Errorf("the ECDSA signature does not verify")
		}
	case *rsa.PublicKey:
		if pss, ok := o.(*rsa.PSSOptions); ok {
			return rsa.VerifyPSS(k, pss.Hash, digest, sig, pss)
		}
		return rsa.VerifyPKCS1v15(k, o.HashFunc(), digest, sig)
	case ed25519.PublicKey:
		if !ed25519.Verify(k, digest, sig) {
			return fmt.Errorf("the Ed25519 signature does not verify")
		}
	default:
		return fmt.Errorf("unknown key %T", pub)
	}
	return nil
}

// schemes lists the ways to sign with pub.
func (b *bench) schemes(pub crypto.PublicKey) []crypto.SignerOpts {
	hashes := []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}
	switch pub.(type) {
	case ed25519.PublicKey:
		return []crypto.SignerOpts{crypto.Hash(0)}
	case *rsa.PublicKey:
		var all []crypto.SignerOpts
		for _, h := range hashes {
			all = append(all, h)
			if b.NoPSS {
				continue
			}
			for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, rsa.PSSSaltLengthAuto, 20} {
				all = append(all, &rsa.PSSOptions{SaltLength: salt, Hash: h})
			}
		}
		return all
	}
	return []crypto.SignerOpts{hashes[0], hashes[1], hashes[2]}
}

// trySign makes one signature as TLS would and checks it.
func trySign(s crypto.Signer) ([]byte, error) {
	o := crypto.SignerOpts(crypto.SHA256)
	if _, ok := s.Public().(ed25519.PublicKey); ok {
		o = crypto.Hash(0)
	}
	d := digest(o.HashFunc(), "hsmtest")
	sig, err := s.Sign(rand.Reader, d, o)
	if err != nil {
		return nil, err
	}
	return sig, verify(s.Public(), d, sig, o)
}

func signOne(t *testing.T, s crypto.Signer) {
	t.Helper()
	if _, err := trySign(s); err != nil {
		t.Fatalf("sign: %v", err)
	}
}

func testSign(t *testing.T, b *bench) {
	tok := b.open(t)
	for _, a := range b.Algorithms {
		slot := b.generate(t, tok, a)
		b.signAll(t, slot, b.signer(t, tok, slot, b.typing(t)))
	}
}

// testSlow is what the other parts see of the quick algorithms.
func testSlow(t *testing.T, b *bench) {
	tok := b.open(t)
	for _, a := range b.Slow {
		slot := b.generate(t, tok, a)
		if slot.Key.Algorithm != a || slot.Key.Extractable {
			t.Errorf("%s: made %s, extractable %v", a, slot.Key.Algorithm, slot.Key.Extractable)
		}
		sign := b.signer(t, tok, slot, b.typing(t))
		b.signAll(t, slot, sign)
		b.connect(t, slot, sign)
	}
}

// signAll makes every kind of signature that the key can be asked for.
func (b *bench) signAll(t *testing.T, slot hsm.Slot, sign crypto.Signer) {
	t.Helper()
	a := slot.Key.Algorithm
	if !hsm.SameKey(sign.Public(), slot.Key.Public) {
		t.Fatalf("%s: the signer has another key", a)
	}
	for _, o := range b.schemes(slot.Key.Public) {
		name := fmt.Sprintf("%s/%s", a, o.HashFunc())
		if pss, ok := o.(*rsa.PSSOptions); ok {
			name += fmt.Sprintf("/PSS salt %d", pss.SaltLength)
		}
		t.Run(name, func(t *testing.T) {
			d := digest(o.HashFunc(), "message")
			sig, err := sign.Sign(rand.Reader, d, o)
			must.OK(t, err)
			must.OK(t, verify(slot.Key.Public, d, sig, o))
		})
	}
}

func testSignRefusesDigest(t *testing.T, b *bench) {
	tok := b.open(t)
	for _, a := range b.Algorithms {
		if a == hsm.Ed25519 {
			continue
		}
		sign := b.signer(t, tok, b.generate(t, tok, a), b.typing(t))
		for _, n := range []int{0, 31, 33} {
			if _, err := sign.Sign(rand.Reader, make([]byte, n), crypto.SHA256); err == nil {
				t.Errorf("%s: signed %d bytes as SHA-256", a, n)
			}
		}
		signOne(t, sign)
	}
}

func testSignAsks(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	lock(t, tok)
	tries := b.tries()
	p := NewScript(t, PIN(b.WrongPIN), PIN(b.PIN))
	sign := b.signer(t, tok, slot, p)
	for range 3 {
		signOne(t, sign)
	}
	if n := len(p.PINs()); n != 2 {
		t.Errorf("asked %d times, want twice: once wrong, once right", n)
	}
	b.wantTries(t, tries)
}

func testSignCancelled(t *testing.T, b *bench) {
	tok := b.open(t)
	slot := b.generate(t, tok, b.Algorithms[0])
	lock(t, tok)
	tries := b.tries()
	ctx, cancel := context.WithCancel(t.Context())
	up := make(chan struct{})
	p := NewScript(t, Hang(up))
	sign, err := tok.Signer(ctx, slot.URI, slot.Key.Public, p)
	must.OK(t, err)
	done := make(chan error, 1)
	go func() { _, err := trySign(sign); done <- err }()
	<-up
	cancel()
	wantErr(t, <-done, context.Canceled)
	b.wantTries(t, tries)
	signOne(t, b.signer(t, tok, slot, Typing(t, b.PIN)))
}

func testSignConcurrently(t *testing.T, b *bench) {
	tok := b.open(t)
	var signers []crypto.Signer
	for range 2 {
		signers = append(signers, b.signer(t, tok, b.generate(t, tok, b.Algorithms[0]), b.typing(t)))
	}
	other, err := b.Driver.Open(t.Context(), b.Token)
	must.OK(t, err)
	defer other.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := range 5 {
				if _, err := trySign(signers[i%2]); err != nil {
					t.Errorf("goroutine %d: %v", i, err)
					return
				}
				if _, err := other.Info(t.Context()); err != nil {
					t.Errorf("goroutine %d: info: %v", i, err)
				}
				if round > 0 { // A slow card takes seconds to read all slots.
					continue
				}
				if _, err := other.Slots(t.Context(), nil); err != nil {
					t.Errorf("goroutine %d: slots: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}
