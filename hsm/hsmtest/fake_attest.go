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

// AddAttested puts a key into a slot. The token attests it from now on with a, the
// statement of a real token. The key is the one in the statement: the fake token shows it,
// but cannot sign with it.
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

// shown is a key whose private half is not on the fake token.
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
