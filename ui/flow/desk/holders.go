package desk

import (
	"context"

	"github.com/kubehsm/kubehsm/csr/revocation"
)

// Evaders are the users and groups that a binding lets evade a revocation.
type Evaders struct {
	// Impersonate may act as others, Policies may change admission policies.
	Impersonate []string `json:"impersonate"`
	Policies    []string `json:"changePolicies"`
	// Unknown says why nobody could look; "" if somebody has.
	Unknown string `json:"unknown,omitempty"`
}

// Evaders looks for them in the cluster of a context.
func (s Roles) Evaders(ctx context.Context, kubeContext string) (e Evaders, err error) {
	c, err := openObjects(ctx, s.access, kubeContext)
	if err != nil {
		return e, err
	}
	e.Impersonate, err = revocation.Holders(ctx, ledgerAPI{c}, revocation.Impersonates, nil)
	if err == nil {
		e.Policies, err = revocation.Holders(ctx, ledgerAPI{c}, revocation.ChangesPolicies, nil)
	}
	if isForbidden(err) {
		return Evaders{Unknown: mayNotList}, nil
	}
	return e, err
}

// mayNotList is why the holders of a right are not known.
const mayNotList = "you may not list roles and bindings"
