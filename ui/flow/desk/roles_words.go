package desk

import (
	"errors"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// RBACUnenforced is the error for policies that a cluster cannot enforce: without
// them the roles allow more than they should.
func RBACUnenforced(all []RBACObject) error {
	for _, o := range all {
		if o.State == RBACUnserved {
			return hint.With(
				errors.New("this cluster has no ValidatingAdmissionPolicies: what they forbid stays possible"),
				"they need Kubernetes 1.30; do not bind the roles of help desk and break-glass before")
		}
	}
	return nil
}
