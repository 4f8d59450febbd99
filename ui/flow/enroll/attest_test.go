package enroll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// attesting is a token that attests keys, or fails to.
type attesting struct {
	hsm.Token
	says hsm.Attestation
	err  error
}

func (a attesting) Attest(context.Context, hsm.URI) (hsm.Attestation, error) { return a.says, a.err }

// TestRequestCarriesAttestation: a note says that a token cannot attest. A token that fails
// to attest stops the enrollment, and --no-attestation leaves the attestation out.
func TestRequestCarriesAttestation(t *testing.T) {
	whole := hsm.Attestation{Statement: []byte("statement"), Intermediate: []byte("device")}
	broken := errors.New("the card was pulled out")
	for name, tc := range map[string]struct {
		token   func(hsm.Token) hsm.Token
		without bool
		carries bool
		note    string
		err     error
	}{
		"attests":    {token: func(t hsm.Token) hsm.Token { return attesting{Token: t, says: whole} }, carries: true},
		"not wanted": {token: func(t hsm.Token) hsm.Token { return attesting{Token: t, says: whole} }, without: true},
		"cannot":     {token: func(t hsm.Token) hsm.Token { return t }, note: "this kind of token attests no keys"},
		"lacks it": {token: func(t hsm.Token) hsm.Token {
			return attesting{Token: t, err: fmt.Errorf("imported: %w", hsm.ErrUnsupported)}
		}, note: "imported"},
		"half of one": {token: func(t hsm.Token) hsm.Token { return attesting{Token: t, says: hsm.Attestation{Statement: []byte("x")}} }, note: "is missing"},
		"fails":       {token: func(t hsm.Token) hsm.Token { return attesting{Token: t, err: broken} }, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			e, _ := flowtest.Env(t, "blue")
			r := begin(t, e, enrolling.Options{User: "jane", NoAttestation: tc.without}, &typist{})
			makeKey(t, r)
			r.token = tc.token(r.token)
			_, r.info.Can.Attest = r.token.(attesting)
			if err := r.signRequest(ctx); !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			} else if err != nil {
				return
			}
			info, err := csr.InspectRequest(r.record.Request.Spec.Request)
			must.OK(t, err)
			a, err := attest.FromExtensions(info.Extensions)
			if tc.carries != (err == nil) || tc.carries && string(a.Statement) != "statement" || !tc.carries &&
				!errors.Is(err, attest.ErrNone) {
				t.Errorf("the request's attestation: %q, %v", a.Statement, err)
			}
			if notes := strings.Join(r.notes, "\n"); !strings.Contains(notes, tc.note) || (tc.note == "") != (notes == "") {
				t.Errorf("notes %q, want one with %q", notes, tc.note)
			}
		})
	}
}
