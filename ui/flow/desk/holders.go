package desk

import (
	"context"
	"maps"
	"slices"
	"strings"

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
	e.Impersonate, err = c.holders(ctx, revocation.Impersonates)
	if err == nil {
		e.Policies, err = c.holders(ctx, revocation.ChangesPolicies)
	}
	if isForbidden(err) {
		return Evaders{Unknown: mayNotList}, nil
	}
	return e, err
}

// mayNotList is why the holders of a right are not known.
const mayNotList = "you may not list roles and bindings"

// holders are the users and groups that a binding gives a role with such a rule, in a
// namespace or in all.
func (c *objects) holders(ctx context.Context, is func(rule map[string]any, namespaced bool) bool) ([]string, error) {
	type role struct{ kind, namespace, name string }
	rules := map[role][]any{}
	for _, kind := range []string{"ClusterRole", "Role"} {
		err := c.list(ctx, object{"apiVersion": rbacGroup + "/v1", "kind": kind}, func(o object) {
			rules[role{kind, o.namespace(), o.name()}], _ = o["rules"].([]any)
		})
		if err != nil {
			return nil, err
		}
	}
	found := map[string]bool{}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		err := c.list(ctx, object{"apiVersion": rbacGroup + "/v1", "kind": kind}, func(o object) {
			of, in := role{kind: o.text("roleRef", "kind"), name: o.text("roleRef", "name")}, ""
			if of.kind == "Role" {
				of.namespace = o.namespace()
			}
			if o.namespace() != "" {
				in = " in " + o.namespace()
			}
			if !slices.ContainsFunc(rules[of], func(r any) bool { m, _ := r.(map[string]any); return is(m, in != "") }) {
				return
			}
			for _, s := range subjectsOf(o) {
				if s.kind() != "ServiceAccount" {
					found[strings.ToLower(s.kind())+" "+s.text("name")+in] = true
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
