package revocation

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Holders names who a binding gives a role with such a rule, in a namespace or in all, such as "user jane in dev":
// users and groups, or, if groups is not nil, those groups alone.
func Holders(ctx context.Context, api API, is func(rule map[string]any, namespaced bool) bool,
	groups map[string]bool) ([]string, error) {
	const rbac = "rbac.authorization.k8s.io/v1"
	text := func(o map[string]any, path ...string) string {
		s, _ := at(o, path...).(string)
		return s
	}
	type role struct{ kind, namespace, name string }
	rules := map[role][]any{}
	for _, kind := range []string{"ClusterRole", "Role"} {
		all, err := api.List(ctx, rbac, kind)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			rules[role{kind, text(o, "metadata", "namespace"), text(o, "metadata", "name")}], _ = o["rules"].([]any)
		}
	}
	found := map[string]bool{}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		all, err := api.List(ctx, rbac, kind)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			of, in := role{kind: text(o, "roleRef", "kind"), name: text(o, "roleRef", "name")}, ""
			namespace := text(o, "metadata", "namespace")
			if of.kind == "Role" {
				of.namespace = namespace
			}
			if namespace != "" {
				in = " in " + namespace
			}
			if !slices.ContainsFunc(rules[of], func(r any) bool { m, _ := r.(map[string]any); return is(m, in != "") }) {
				continue
			}
			subjects, _ := o["subjects"].([]any)
			for _, s := range subjects {
				who, _ := s.(map[string]any)
				kind, name := text(who, "kind"), text(who, "name")
				if groups == nil && kind != "ServiceAccount" || kind == "Group" && groups[name] {
					found[strings.ToLower(kind)+" "+name+in] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Impersonates: a rule that lets its holder act as others. With that the cluster sees their
// own certificate no more. In a namespace that is as its service accounts.
func Impersonates(rule map[string]any, namespaced bool) bool {
	return names(rule, "verbs", func(v string) bool { return v == "*" || strings.HasPrefix(v, "impersonate") }) &&
		names(rule, "resources", func(r string) bool {
			r, _, _ = strings.Cut(r, "/") // userextras/KEY
			return r == "*" || r == "serviceaccounts" || !namespaced &&
				slices.Contains([]string{"users", "groups", "nodes", "userextras"}, r)
		})
}

// ChangesPolicies: a rule that lets its holder change admission policies, and so lift a
// revocation. No policy judges who does. No role in a namespace does.
func ChangesPolicies(rule map[string]any, namespaced bool) bool {
	changes := []string{"*", "update", "patch", "delete", "deletecollection"}
	return !namespaced && names(rule, "verbs", func(v string) bool { return slices.Contains(changes, v) }) &&
		names(rule, "resources", func(r string) bool {
			return r == "*" || strings.HasPrefix(r, "validatingadmissionpolic")
		})
}

func names(rule map[string]any, field string, is func(string) bool) bool {
	list, _ := rule[field].([]any)
	return slices.ContainsFunc(list, func(v any) bool { s, _ := v.(string); return is(s) })
}
