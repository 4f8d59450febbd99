package hsmtest

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"github.com/kubehsm/kubehsm/hsm"
)

// AddAttested puts a key into a slot that the token attests from now on, by a statement of
// a real one. The key is the statement's, which the token shows and cannot use.
func (t *FakeToken) AddAttested(slot string, a hsm.Attestation) error {
	cert, err := x509.ParseCertificate(a.Statement)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.info.Can.Attest = true
	t.slots = append(t.slots, &fakeSlot{id: slot, key: shown{cert.PublicKey}, attested: &a, info: hsm.Key{
		Algorithm: hsm.AlgorithmOf(cert.PublicKey), Public: cert.PublicKey, Origin: hsm.Generated,
		PIN: t.options.PINPolicy, Touch: t.options.TouchPolicy}})
	return nil
}

// shown is a key of which only the public half is there.
type shown struct{ public crypto.PublicKey }

func (s shown) Public() crypto.PublicKey { return s.public }

func (s shown) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("the private key is in another token")
}

// Attest implements [hsm.Administration].
func (h *fakeHandle) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	if err := h.admit(ctx, h.info.Can.Attest); err != nil {
		return hsm.Attestation{}, err
	}
	s, err := h.lookup(ctx, u)
	if err != nil {
		return hsm.Attestation{}, err
	}
	if s.attested == nil {
		return hsm.Attestation{}, fmt.Errorf("%s: the key was not made here: %w", u, hsm.ErrUnsupported)
	}
	return *s.attested, nil
}
