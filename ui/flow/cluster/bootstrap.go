package cluster

import (
	"context"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
)

// BootstrapTokens speaks of bootstrap tokens to the cluster of a context.
func (a Access) BootstrapTokens(ctx context.Context, kubeContext string) (*bootstraptoken.Client, error) {
	config, err := a.Config(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	return bootstraptoken.NewClient(config)
}
