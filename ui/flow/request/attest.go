package request

import (
	"context"
	"crypto/x509/pkix"
	"errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
)

// Attestation has the token attest the key that u names, for the request to
// carry: the request is signed by that key and cannot be changed, so neither
// can be swapped. A token that is not able to do it gives none; why says so.
func Attestation(ctx context.Context, t hsm.Token, able hsm.Abilities, u hsm.URI) (carried []pkix.Extension,
	why, err error) {
	if !able.Attest {
		return nil, errors.New("this kind of token attests no keys"), nil
	}
	a, err := t.Attest(ctx, u)
	if errors.Is(err, hsm.ErrUnsupported) || errors.Is(err, hsm.ErrNoCertificate) {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	carried = attest.Extensions(a)
	if _, err := attest.FromExtensions(carried); err != nil { // not worth sending
		return nil, err, nil
	}
	return carried, nil, nil
}

// judge looks for an attestation in the request and says what it is worth. It
// is for those who look at one request.
func (v *View) judge(by attest.Verifier) {
	info, err := csr.InspectRequest(v.Object.Spec.Request)
	if err != nil {
		return // the view warns of it
	}
	a, err := attest.FromExtensions(info.Extensions)
	if errors.Is(err, attest.ErrNone) {
		v.Attestation = "none: only the requester says that the key is in a token"
		return
	}
	var s attest.Statement
	if err == nil {
		s, err = by.Verify(a, info.PublicKey)
	}
	if err != nil {
		v.Attestation = "present, not verified"
		v.Warnings = append(v.Warnings, "its attestation is not valid: "+err.Error())
		return
	}
	v.Attested, v.Serial, v.Attestation = true, s.Serial, "verified to "+s.Root+": "+s.String()
}
