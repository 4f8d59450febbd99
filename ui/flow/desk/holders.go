package desk

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Evaders are the users and groups that a cluster-wide binding lets evade a revocation.
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
	e.Impersonate, err = c.holders(ctx, impersonates)
	if err == nil {
		e.Policies, err = c.holders(ctx, changesPolicies)
	}
	if isForbidden(err) {
		return Evaders{Unknown: mayNotList}, nil
	}
	return e, err
}

// mayNotList is why the holders of a right are not known.
const mayNotList = "you may not list roles and bindings"

// impersonates: a rule that lets its holder act as other users or groups. With that the
// cluster sees their own certificate no more.
func impersonates(rule map[string]any) bool {
	return names(rule, "verbs", func(v string) bool { return v == "*" || strings.HasPrefix(v, "impersonate") }) &&
		names(rule, "resources", func(r string) bool { return r == "*" || r == "users" || r == "groups" })
}

// changesPolicies: a rule that lets its holder change admission policies, and so lift a
// revocation. No policy judges who does.
func changesPolicies(rule map[string]any) bool {
	changes := []string{"*", "update", "patch", "delete"}
	return names(rule, "verbs", func(v string) bool { return slices.Contains(changes, v) }) &&
		names(rule, "resources", func(r string) bool {
			return r == "*" || strings.HasPrefix(r, "validatingadmissionpolic")
		})
}

func names(rule map[string]any, field string, is func(string) bool) bool {
	list, _ := rule[field].([]any)
	return slices.ContainsFunc(list, func(v any) bool { s, _ := v.(string); return is(s) })
}

// holders are the users and groups that a cluster-wide binding gives a role with such a rule.
func (c *objects) holders(ctx context.Context, is func(rule map[string]any) bool) ([]string, error) {
	roles := map[string]bool{}
	err := c.list(ctx, object{"apiVersion": rbacGroup + "/v1", "kind": "ClusterRole"}, func(o object) {
		rules, _ := o["rules"].([]any)
		roles[o.name()] = slices.ContainsFunc(rules, func(r any) bool { m, _ := r.(map[string]any); return is(m) })
	})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	err = c.list(ctx, object{"apiVersion": rbacGroup + "/v1", "kind": "ClusterRoleBinding"}, func(o object) {
		for _, s := range subjectsOf(o) {
			if roles[o.text("roleRef", "name")] && s.kind() != "ServiceAccount" {
				found[strings.ToLower(s.kind())+" "+s.text("name")] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(found)), err
}
