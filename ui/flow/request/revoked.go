package request

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
)

// revokedCheck refuses a key or a certificate that is on the cluster's list.
func (q Requests) revokedCheck(kubeContext string, accept []string) Check {
	return func(ctx context.Context, _ *csr.Client, v *View) error {
		listed, err := onList(v, func() (revocation.List, error) { return q.access.Revoked(ctx, kubeContext) })
		v.Refuse(RiskRevoked, accept, listed...)
		return err
	}
}

// onList says what of v is on the cluster's list of revoked certificates. What of the list cannot
// or may not be read is told with the rights that could not be looked up.
func onList(v *View, read func() (revocation.List, error)) (refusals []string, err error) {
	list, err := read()
	switch {
	case apierrors.IsForbidden(err):
		v.RightsUnknown = append(v.RightsUnknown, "which certificates are revoked: you may not read the list")
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, s := range list.Shards {
		if s.Err != nil {
			v.RightsUnknown = append(v.RightsUnknown, "whether it is revoked: "+s.Err.Error())
		}
	}
	certificate := ""
	if v.Object != nil {
		certificate = revocation.Used(v.Object.Spec.Extra)
	}
	return list.Objections(certificate, v.Fingerprint), nil
}
