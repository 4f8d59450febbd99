package hsmtest

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"fmt"
	"io"

	"github.com/kubehsm/kubehsm/hsm"
)

// fakeSigner signs with a key of a [FakeToken].
type fakeSigner struct {
	h   *fakeHandle
	ctx context.Context
	uri hsm.URI
	pub crypto.PublicKey
	p   hsm.Prompter
}

func (h *fakeHandle) Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer,
	error) {
	s, err := h.lookup(ctx, u)
	if err != nil {
		return nil, err
	}
	if want != nil && !hsm.SameKey(s.key.Public(), want) {
		return nil, fmt.Errorf("%s: %w", u, hsm.ErrKeyMismatch)
	}
	return &fakeSigner{h: h, ctx: ctx, uri: u, pub: s.key.Public(), p: p}, nil
}

func (s *fakeSigner) Public() crypto.PublicKey { return s.pub }

func (s *fakeSigner) Sign(rand io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if _, ok := s.pub.(ed25519.PublicKey); !ok && (o.HashFunc() == 0 || len(digest) != o.HashFunc().Size()) {
		return nil, fmt.Errorf("a digest of %d bytes is not %s", len(digest), o.HashFunc())
	}
	slot, err := s.h.lookup(s.ctx, s.uri)
	if err != nil {
		return nil, err
	}
	if !hsm.SameKey(slot.key.Public(), s.pub) {
		return nil, fmt.Errorf("%s: %w", s.uri, hsm.ErrKeyMismatch)
	}
	switch slot.info.PIN {
	case hsm.PINNever:
	case hsm.PINAlways:
		err = s.h.ask(s.ctx, s.p)
	default:
		err = s.h.Unlock(s.ctx, s.p)
	}
	if err != nil {
		return nil, err
	}
	if err := s.h.run(s.ctx, OpSign); err != nil {
		return nil, err
	}
	if slot.info.Touch == hsm.TouchAlways || slot.info.Touch == hsm.TouchCached {
		if err := s.touch(); err != nil {
			return nil, err
		}
	}
	sig, err := slot.key.Sign(rand, digest, o)
	if err == nil {
		s.h.mu.Lock()
		s.h.signatures++
		s.h.mu.Unlock()
	}
	return sig, err
}

// touch waits until the sensor is touched, or the token unplugged at the latest
// when ctx ends.
func (s *fakeSigner) touch() error {
	if s.p != nil {
		done := s.p.Touch(s.ctx, hsm.TouchPrompt{Token: s.h.FakeToken.Info()})
		defer done()
	}
	select {
	case <-s.h.FakeToken.touch:
		if !s.h.Present() {
			return hsm.ErrRemoved
		}
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
