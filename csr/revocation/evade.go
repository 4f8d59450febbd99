package revocation

import (
	"slices"
	"strings"
)

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
