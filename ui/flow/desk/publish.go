package desk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// ErrPublished: the cluster publishes cluster-info already.
var ErrPublished = errors.New("the cluster publishes cluster-info already")

// ClusterInfo is, in YAML, the ConfigMap cluster-info of the cluster of a context and everybody's right to read it,
// as kubeadm writes them. Errors wrap [ErrPublished] if everybody can read one.
func ClusterInfo(ctx context.Context, e *env.Env, kubeContext string) (string, error) {
	at, err := cluster.Access{Env: e}.Verified(ctx, kubeContext)
	if err != nil {
		return "", err
	}
	if discovery.Published(ctx, at) == nil {
		return "", hint.With(fmt.Errorf("%s: %w", at.Server, ErrPublished), "tickets need no more: leave it as it is")
	}
	pins, err := clusterPins(at.Server, at.CAData)
	if err != nil {
		return "", err
	}
	document, err := discovery.Document(at)
	if err != nil {
		return "", err
	}
	hashes := make([]string, len(pins))
	for i, p := range pins {
		hashes[i] = p.String()
	}
	const name, role = "cluster-info", "kubehsm:cluster-info"
	named := func(apiVersion, kind, name string, rest object) object {
		rest["apiVersion"], rest["kind"] = apiVersion, kind
		rest["metadata"] = map[string]any{"namespace": "kube-public", "name": name}
		return rest
	}
	texts := []string{}
	for _, o := range []object{
		named("v1", "ConfigMap", name, object{"data": map[string]any{"kubeconfig": string(document)}}),
		named(rbacGroup+"/v1", "Role", role, object{"rules": []any{map[string]any{"apiGroups": []any{""},
			"resources": []any{"configmaps"}, "resourceNames": []any{name}, "verbs": []any{"get"}}}}),
		named(rbacGroup+"/v1", "RoleBinding", role, object{
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "Role", "name": role},
			"subjects": []any{map[string]any{"apiGroup": rbacGroup, "kind": "User", "name": "system:anonymous"}}}),
	} {
		text, err := yaml.Marshal(o)
		if err != nil {
			return "", err
		}
		texts = append(texts, string(text))
	}
	return fmt.Sprintf("# Everybody who reaches the API server will see: the cluster is at %s, its CA is %s.\n", at.Server,
		strings.Join(hashes, ", ")) + strings.Join(texts, "---\n"), nil
}
