package hsmtest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

// fakeHandle is an opened [FakeToken].
type fakeHandle struct {
	hsm.Unsupported
	*FakeToken
	fake *Fake
}

var _ hsm.Token = (*fakeHandle)(nil)

var pivSlots = []string{"9a", "9c", "9d", "9e"}

func (h *fakeHandle) Info(ctx context.Context) (hsm.TokenInfo, error) { return h.describe(ctx) }

func (h *fakeHandle) Close() error { return nil }

func (h *fakeHandle) Unlocked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unlocked && h.present
}

func (h *fakeHandle) Lock() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlocked = false
	return nil
}

func (h *fakeHandle) Unlock(ctx context.Context, p hsm.Prompter) error {
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.Unlocked() {
		return nil
	}
	return h.ask(ctx, p)
}

func (h *fakeHandle) pinKind() hsm.PINKind {
	if h.info.Scheme == hsm.SchemePIV {
		return hsm.PIVPIN
	}
	return hsm.UserPIN
}

// ask verifies the PIN, whether or not it is verified already.
func (h *fakeHandle) ask(ctx context.Context, p hsm.Prompter) error {
	kind := h.pinKind()
	state := func() (hsm.TokenInfo, error) { return h.describe(ctx) }
	return hsm.AskPIN(ctx, p, kind, state, func(pin *hsm.Secret) error {
		if err := h.run(ctx, OpUnlock); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.tries == 0 || string(pin.Bytes()) != h.options.PIN {
			h.tries = max(0, h.tries-1)
			return &hsm.PINError{Kind: kind, Retries: h.tries}
		}
		h.tries, h.unlocked = h.options.Tries, true
		return nil
	})
}

func (h *fakeHandle) Slots(ctx context.Context, _ hsm.Prompter) ([]hsm.Slot, error) {
	if err := h.run(ctx, OpSlots); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]hsm.Slot, 0, len(h.slots))
	for _, s := range h.slots {
		all = append(all, h.show(s))
	}
	return all, nil
}

// AllSlots implements [hsm.Administration].
func (h *fakeHandle) AllSlots(ctx context.Context) ([]hsm.Slot, error) {
	used, err := h.Slots(ctx, nil)
	if err != nil || h.info.Scheme != hsm.SchemePIV {
		return used, err
	}
	all := make([]hsm.Slot, len(pivSlots))
	for i, id := range pivSlots {
		all[i] = hsm.Slot{URI: h.info.URI(), ID: id}
		all[i].URI.Slot = id
		for _, s := range used {
			if s.ID == id {
				all[i] = s
			}
		}
	}
	return all, nil
}

func (h *fakeHandle) show(s *fakeSlot) hsm.Slot {
	u, key := h.info.URI(), s.info
	if h.info.Scheme == hsm.SchemePIV {
		u.Slot = s.id
	} else {
		u.Object = s.label
		u.ID, _ = hex.DecodeString(s.id)
	}
	return hsm.Slot{URI: u, ID: s.id, Label: s.label, Key: &key, Certificate: s.cert}
}

func (h *fakeHandle) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	s, err := h.lookup(ctx, u)
	if err != nil {
		return hsm.Slot{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.show(s), nil
}

func (h *fakeHandle) lookup(ctx context.Context, u hsm.URI) (*fakeSlot, error) {
	if err := h.run(ctx, OpSlots); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*fakeSlot
	for _, s := range h.slots {
		if u.MatchSlot(h.show(s)) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s: %w", u, hsm.ErrNoKey)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%s: %w", u, hsm.ErrSeveralKeys)
}

func (h *fakeHandle) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	a, err := hsm.ParseAlgorithm(string(o.Algorithm))
	if err != nil {
		return hsm.Slot{}, err
	}
	piv := h.info.Scheme == hsm.SchemePIV
	if piv && !slices.Contains(hsm.PIVSlots(), o.Slot) {
		return hsm.Slot{}, fmt.Errorf("slot %q: %w", o.Slot, hsm.ErrUnsupported)
	}
	if err := h.Unlock(ctx, p); err != nil {
		return hsm.Slot{}, err
	}
	if err := h.run(ctx, OpGenerate); err != nil {
		return hsm.Slot{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.slots, func(s *fakeSlot) bool { return piv && s.id == o.Slot })
	if at >= 0 && !o.Overwrite {
		return hsm.Slot{}, fmt.Errorf("slot %s: %w", o.Slot, hsm.ErrOccupied)
	}
	key, err := h.generate(a)
	if err != nil {
		return hsm.Slot{}, err
	}
	s := &fakeSlot{id: o.Slot, key: key, info: hsm.Key{
		Algorithm: a, Public: key.Public(), Origin: hsm.Generated, PIN: h.options.PINPolicy, Touch: h.options.TouchPolicy,
	}}
	if o.PIN != hsm.PINDefault {
		s.info.PIN = o.PIN
	}
	if o.Touch != hsm.TouchDefault {
		s.info.Touch = o.Touch
	}
	if !piv {
		sum := sha1.Sum(fmt.Append(nil, h.info.Serial, h.generated))
		s.id, s.label = hex.EncodeToString(sum[:]), o.Label
	}
	if at >= 0 {
		h.slots[at] = s
	} else {
		h.slots = append(h.slots, s)
	}
	return h.show(s), nil
}

// generate makes the next key.
func (h *fakeHandle) generate(a hsm.Algorithm) (crypto.Signer, error) {
	h.generated++
	seed := sha512.Sum384(fmt.Append(nil, h.options.Seed, h.generated))
	switch {
	case h.options.Seed == "":
	case a == hsm.ECDSAP256:
		return ecdsa.ParseRawPrivateKey(elliptic.P256(), seed[:32])
	case a == hsm.ECDSAP384:
		return ecdsa.ParseRawPrivateKey(elliptic.P384(), seed[:])
	case a == hsm.Ed25519:
		return ed25519.NewKeyFromSeed(seed[:32]), nil
	}
	switch a {
	case hsm.ECDSAP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case hsm.ECDSAP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case hsm.Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return rsa.GenerateKey(rand.Reader, a.RSABits())
}

func (h *fakeHandle) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	s, err := h.lookup(ctx, u)
	if err != nil {
		return err
	}
	if !hsm.SameKey(s.key.Public(), cert.PublicKey) {
		return fmt.Errorf("the certificate is for another key: %w", hsm.ErrKeyMismatch)
	}
	if err := h.Unlock(ctx, p); err != nil {
		return err
	}
	if err := h.run(ctx, OpStoreCertificate); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.cert = cert
	return nil
}

func (h *fakeHandle) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	s, err := h.lookup(ctx, u)
	if err != nil {
		return err
	}
	if err := h.Unlock(ctx, p); err != nil {
		return err
	}
	if err := h.run(ctx, OpDelete); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots = slices.DeleteFunc(h.slots, func(x *fakeSlot) bool { return x == s })
	return nil
}
