package request

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Sign makes of r the request that o asks for: a PKCS#10 signed by signer, which is r's
// key on t, and a name, unless r has one. Where it carries no attestation although it
// was to, unattested says why.
func Sign(ctx context.Context, t hsm.Token, able hsm.Abilities, signer crypto.Signer, o *enrolling.Options,
	r *enrolling.Request) (unattested, err error) {
	with := csr.RequestOptions{SignerName: o.SignerName}
	if err := o.AltNames.Into(&with); err != nil {
		return nil, err
	}
	if o.Attests() {
		if with.ExtraExtensions, unattested, err = Attestation(ctx, t, able, r.Key); err != nil {
			return nil, fmt.Errorf("attest the key: %w", err)
		}
		if err := o.Join.RefusePolicy(unattested == nil, unattested); err != nil {
			return nil, err
		}
	}
	pem, err := csr.NewRequest(signer, csr.Subject{User: o.User, Groups: o.Groups}, with)
	if err != nil {
		return nil, err
	}
	r.Ask(cmp.Or(r.Name, csr.RequestName(o.User, r.KeyHash)), pem, o)
	return unattested, nil
}

// File files a request that is recorded, or finds that an earlier run or an admin has filed
// it, and notes its UID in r. A refusal that only somebody else can mend is a [*SendToAdmin], or the
// [*csr.ForbiddenError] of a renewal: only who may file it in their own name renews. In an admin's name the cluster
// would not see that the certificate is revoked.
func File(ctx context.Context, client *csr.Client, r *enrolling.Request,
	renewal bool) (*certificatesv1.CertificateSigningRequest, error) {
	obj, err := client.Create(ctx, r.Spec)
	var lacks *csr.ForbiddenError // another refusal, such as a revocation's, ends the matter
	if errors.As(err, &lacks) {
		if got, getErr := client.Get(ctx, r.Name); getErr == nil && string(got.Spec.Request) == string(r.Spec.Request) {
			obj, err = got, nil
		}
	}
	if errors.As(err, &lacks) && !renewal {
		text, textErr := csr.AdminCommand(r.Spec)
		if textErr != nil {
			return nil, errors.Join(err, textErr)
		}
		return nil, &SendToAdmin{Err: err, Text: text}
	}
	if err != nil {
		return nil, err
	}
	r.UID = string(obj.UID)
	return obj, nil
}
