// Package cluster reaches the API servers of kubeconfig contexts as their users,
// and says what an enrollment has to know of a context's cluster. A context of
// kubehsm's own signs in through the agent and its bridge. It knows no use case.
package cluster

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Access reaches API servers. An empty name of a context is the current one.
type Access struct{ Env *env.Env }

// Client speaks to the cluster of a context, as its user.
func (a Access) Client(ctx context.Context, kubeContext string) (*csr.Client, error) {
	return a.ClientOf(ctx, a.Env.Rules(), kubeContext)
}

// ClientOf is Client for other kubeconfig files.
func (a Access) ClientOf(ctx context.Context, rules kubeconfig.Rules, kubeContext string) (*csr.Client, error) {
	config, err := a.configOf(ctx, rules, kubeContext)
	if err != nil {
		return nil, err
	}
	return clientOf(config)
}

// Config says how to connect to the cluster of a context, as its user.
func (a Access) Config(ctx context.Context, kubeContext string) (*rest.Config, error) {
	return a.configOf(ctx, a.Env.Rules(), kubeContext)
}

// configOf is Config for other kubeconfig files. A context that is kubehsm's
// own signs in here, through the agent: run as a plugin below ourselves, its
// words and exit code would be lost.
func (a Access) configOf(ctx context.Context, rules kubeconfig.Rules, kubeContext string) (*rest.Config, error) {
	c, err := rules.Get(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	if c.User.Ours() && c.Cluster.Ours() {
		return a.bridgeConfig(ctx, c.User.Enrollment, a.Env.Prompter)
	}
	if err := missing(c); err != nil {
		return nil, err
	}
	config, err := rules.RESTConfig(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	config.Timeout = a.Env.RequestTimeout
	return config, nil
}

// missing is the error of a context whose cluster is not there, nil for others.
func missing(c kubeconfig.Context) error {
	if c.Cluster.Missing {
		return fmt.Errorf("context %q names a cluster %q that is not in the kubeconfig", c.Name, c.Cluster.Name)
	}
	return nil
}

// Endpoint is the API server of a context.
type Endpoint struct {
	// Context is the context's name, Namespace the one that its commands act on.
	Context, Namespace string
	// Enrollment is the enrollment that the context's cluster entry came from, ""
	// if the entry is not kubehsm's.
	Enrollment string
	Cluster    cluster.Cluster
}

// Endpoint reads the API server of a context. A cluster entry that already is
// kubehsm's names the bridge, not a cluster: it is followed to the enrollment it
// came from.
func (a Access) Endpoint(ctx context.Context, kubeContext string) (Endpoint, error) {
	c, err := a.Env.Rules().Get(ctx, kubeContext)
	if err != nil {
		return Endpoint{}, err
	}
	at := Endpoint{Context: c.Name, Namespace: c.Namespace}
	if err := missing(c); err != nil {
		return at, err
	}
	if c.Cluster.Ours() {
		from, err := a.Env.Enrollments().Load(c.User.Enrollment)
		at.Enrollment, at.Cluster = from.Name, from.Cluster
		return at, err
	}
	ca, err := c.Cluster.CA()
	if err != nil {
		return at, err
	}
	at.Cluster = c.Cluster.Cluster
	at.Cluster.CAData = ca
	return at, nil
}

// Verified is the API server of a context that verifies it: [*UnverifiedError]
// if it does not.
func (a Access) Verified(ctx context.Context, kubeContext string) (cluster.Cluster, error) {
	at, err := a.Endpoint(ctx, kubeContext)
	if err == nil {
		err = at.Accepts("")
	}
	if err != nil {
		return cluster.Cluster{}, err
	}
	return at.Cluster, nil
}

// Server is the URL of the API server that a context leads to: for kubehsm's own,
// not the bridge's but that of the enrollment.
func (a Access) Server(ctx context.Context, kubeContext string) (string, error) {
	c, err := a.Env.Rules().Get(ctx, kubeContext)
	if err != nil {
		return "", err
	}
	if !c.Cluster.Ours() {
		return c.Cluster.Server, nil
	}
	at, err := a.Verified(ctx, kubeContext)
	return at.Server, err
}
