package doctor

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// signIn signs in by the current context, if it is ours, as kubectl would, as far as nobody has to be asked
// for that, and asks the cluster who that is. Others may take a signature of a token each.
func signIn(ctx context.Context, o *Options) []Check {
	k, err := o.Env.Rules().Get(ctx, "")
	if !o.Online || err != nil || !k.User.Ours() || !k.Cluster.Ours() { // [kubeconfigs] tells what cannot be read
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return []Check{signInBy(ctx, cluster.Access{Env: o.Env}, k)}
}

func signInBy(ctx context.Context, a cluster.Access, k kubeconfig.Context) Check {
	c := Check{ID: "sign-in/" + k.Name, Group: GroupClusters, Title: "Sign-in by " + k.Name}
	client, err := a.ThroughBridge(ctx, k.User.Enrollment, nil)
	if err != nil {
		return c.refused(err, k)
	}
	me, err := client.Rights().WhoAmI(ctx)
	switch {
	case errors.Is(err, csr.ErrNotServed):
		return c.ok("the cluster lets you in; it is too old to tell as whom")
	case err != nil:
		return c.refused(err, k)
	}
	return c.ok("the cluster knows you as " + me.User)
}

// refused words why a sign-in came to nothing.
func (c Check) refused(err error, k kubeconfig.Context) Check {
	if errors.Is(err, hsm.ErrPINRequired) {
		return c.with(Unknown, err.Error(), "Only a sign-in shows whether the cluster accepts you.",
			"kubectl --context "+shell.Quote(k.Name)+" auth whoami")
	}
	return c.with(Failed, err.Error(), "kubectl cannot sign in either.", fixOr(err, enrollAnew))
}
