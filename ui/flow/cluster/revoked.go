package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

const policiesPath = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

// Revoked reads which certificates the cluster of a context has revoked, for approvers. An
// approver who may not list admission policies reads those that the set helpdesk of
// `kubehsm rbac apply` names. If all of these are there, one more [revocation.Shard] has the
// error that others may follow. Nobody looks whether the policies are bound. The error is a
// Forbidden one if the caller may read neither.
// A cluster that does not know admission policies has revoked nothing.
func (a Access) Revoked(ctx context.Context, kubeContext string) (revocation.List, error) {
	return a.RevokedOf(ctx, a.Env.Rules(), kubeContext)
}

// RevokedOf is Revoked for other kubeconfig files.
func (a Access) RevokedOf(ctx context.Context, rules kubeconfig.Rules, kubeContext string) (revocation.List, error) {
	config, err := a.configOf(ctx, rules, kubeContext)
	if err != nil {
		return revocation.List{}, err
	}
	cfg := rest.CopyConfig(config)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	cfg.QPS = -1
	c, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return revocation.List{}, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	get := func(path string, into any) error {
		const op = "read the list of revoked certificates"
		raw, err := c.Get().AbsPath(path).Param("labelSelector", revocation.Label).Do(ctx).Raw()
		if err != nil {
			return apierror.Of(op, config.Host, apierror.Said(raw, err))
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("%s: the answer is not JSON: %w", op, err)
		}
		return nil
	}
	var all struct{ Items []revocation.Object }
	err = get(policiesPath, &all)
	byName := apierrors.IsForbidden(err)
	if byName {
		all.Items, err = named(get)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return revocation.List{}, err
	}
	list := revocation.ListOf(all.Items, nil)
	last := fmt.Sprint(revocation.PolicyPrefix, revocation.NamedPolicies)
	if byName && slices.ContainsFunc(list.Shards, func(s revocation.Shard) bool { return s.Name == last }) {
		list.Shards = append(list.Shards, revocation.Shard{Err: fmt.Errorf(
			"you may not read the policies after %s, if there are any", last)})
	}
	return list, nil
}

// named reads the policies that have a name of their own in the help desk's role.
func named(get func(path string, into any) error) (all []revocation.Object, err error) {
	for n := range revocation.NamedPolicies {
		var o revocation.Object
		err := get(fmt.Sprint(policiesPath, "/", revocation.PolicyPrefix, n+1), &o)
		switch {
		case err == nil:
			all = append(all, o)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return all, nil
}
