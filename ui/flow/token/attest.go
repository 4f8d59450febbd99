package token

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Attestation is a token's statement about a key, and the verdict.
type Attestation struct {
	hsm.Attestation
	// Statement is what it claims; its Root is set if it is verified.
	Statement attest.Statement
	// Err says why it is not verified; nil if it is.
	Err error
	// Checked: it was compared with the key that it should be for.
	Checked bool
}

// Attest has the token attest the key that u names and verifies that to
// Yubico's roots, or to roots if there are any. The error is about getting the
// attestation, the verdict is in it.
func (k Keys) Attest(ctx context.Context, u hsm.URI, roots []*x509.Certificate) (Attestation, error) {
	var a Attestation
	err := k.tokens().With(ctx, u, func(t hsm.Token) error {
		can := ability{func(c hsm.Abilities) bool { return c.Attest }, "attest keys",
			"only PIV cards can; what a PKCS#11 token says of a key's origin, `kubehsm key show` shows"}
		if err := can.check(ctx, t); err != nil {
			return err
		}
		slot, err := t.Slot(ctx, u)
		if err != nil {
			return err
		}
		if slot.Key == nil || slot.Key.Public == nil {
			return fmt.Errorf("%s: %w", slot.URI, hsm.ErrNoKey)
		}
		if a.Attestation, err = t.Attest(ctx, slot.URI); err != nil {
			return err
		}
		a.Statement, a.Err = attest.Verifier{Roots: roots}.Verify(a.Attestation, slot.Key.Public)
		a.Checked = true
		return nil
	})
	return a, err
}

// VerifyAttestation verifies an attestation in PEM without any token: two
// certificates (the statement and the device's), or a certificate request that
// carries one, which must then be for the request's key. If key is not nil, it
// must be for that. The verdict is in the result.
func VerifyAttestation(data []byte, key any, roots []*x509.Certificate) Attestation {
	a, own, err := readAttestation(data)
	if err != nil {
		return Attestation{Err: err}
	}
	out := Attestation{Attestation: a, Checked: key != nil || own != nil}
	verifier := attest.Verifier{Roots: roots}
	if own != nil {
		if out.Statement, out.Err = verifier.Verify(a, own); out.Err != nil || key == nil {
			return out
		}
	}
	out.Statement, out.Err = verifier.Verify(a, key)
	return out
}

// readAttestation also returns the key of the request that carries it, if any.
func readAttestation(data []byte) (hsm.Attestation, any, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST" {
		a, err := attest.DecodePEM(data)
		return a, nil, err
	}
	info, err := csr.InspectRequest(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes}))
	if err != nil {
		return hsm.Attestation{}, nil, err
	}
	a, err := attest.FromExtensions(info.Extensions)
	return a, info.PublicKey, err
}

// PublicKey reads the public key of a PEM certificate, request or public key.
func PublicKey(data []byte) (any, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, hint.With(errors.New("no PEM in it"), "give a certificate, a request or a public key in PEM")
	}
	switch block.Type {
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST":
		req, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return nil, err
		}
		return req.PublicKey, nil
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	}
	return nil, fmt.Errorf("a PEM block of type %q has no public key", block.Type)
}
