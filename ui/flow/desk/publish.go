package desk

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
)

// Publishing is s with a set more: cluster-info, and everybody's right to read it. What the
// cluster publishes already stays as it is.
func (s Roles) Publishing() Roles {
	s.publishes = true
	return s
}

// clusterInfo are the objects that publish cluster-info, as kubeadm does.
func (s Roles) clusterInfo(ctx context.Context, kubeContext string, c *objects) ([]RBACObject, error) {
	const set, name, role = "cluster-info", "cluster-info", "kubehsm:cluster-info"
	at, err := s.access.Verified(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	pins, err := clusterPins(at.Server, at.CAData)
	if err != nil {
		return nil, err
	}
	named := func(apiVersion, kind, name string, rest object) object {
		rest["apiVersion"], rest["kind"] = apiVersion, kind
		rest["metadata"] = map[string]any{"namespace": "kube-public", "name": name}
		return rest
	}
	live, err := c.get(ctx, named("v1", "ConfigMap", name, object{}))
	if err != nil && !isNotFound(err) {
		return nil, err
	}
	document, err := discovery.Document(at)
	if err != nil {
		return nil, err
	}
	var authorities []string
	for _, p := range pins {
		authorities = append(authorities, p.String())
	}
	objects := []object{
		named("v1", "ConfigMap", name, object{"data": map[string]any{"kubeconfig": string(document)}}),
		named(rbacGroup+"/v1", "Role", role, object{"rules": []any{map[string]any{"apiGroups": []any{""},
			"resources": []any{"configmaps"}, "resourceNames": []any{name}, "verbs": []any{"get"}}}}),
		named(rbacGroup+"/v1", "RoleBinding", role, object{
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "Role", "name": role},
			"subjects": []any{map[string]any{"apiGroup": rbacGroup, "kind": "User", "name": "system:anonymous"}}}),
	}
	published, readable := live.text("data", "kubeconfig") != "", discovery.Published(ctx, at) == nil
	var all []RBACObject
	for i, o := range objects {
		r := RBACObject{Set: set, Kind: o.kind(), Namespace: o.namespace(), Name: o.name(), text: o}
		if i == 0 && !published {
			r.Says = fmt.Sprintf("cluster-info tells everybody that the cluster is at %s, with the authority %s",
				at.Server, strings.Join(authorities, ", "))
		}
		if readable || i == 0 && published {
			r.State, r.text = RBACSame, nil
		}
		all = append(all, r)
	}
	return all, nil
}

// Published says why nobody can read the cluster-info of a cluster, nil if everybody can.
func (s Roles) Published(ctx context.Context, kubeContext string) error {
	at, err := s.access.Verified(ctx, kubeContext)
	if err != nil {
		return err
	}
	if err := discovery.Published(ctx, at); err != nil {
		return hint.With(err, "the API server may refuse everybody who has no credential (--anonymous-auth=false): "+
			"tickets cannot work then, but `kubehsm roster line --self-contained` can")
	}
	return nil
}
