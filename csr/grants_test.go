package csr

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// What lets its holder take the rights of others depends on where it is given.
func TestGrantEscalates(t *testing.T) {
	const everywhere, own = "", "team-a"
	for _, c := range []struct {
		group, resource, verb string
		in                    string // namespaces, with spaces between them; - is everywhere
	}{
		{"", "users", "impersonate", "- team-a"},
		{"", "serviceaccounts", "impersonate", "- kube-system kubehsm-system"},
		{"", "serviceaccounts/token", "create", "- kube-system kubehsm-system"},
		{"", "secrets", "list", "- kube-system kubehsm-system"},
		{"", "secrets", "create", "- kube-system kubehsm-system"},
		{"", "secrets", "delete", ""},
		{"", "pods", "create", "- kube-system kubehsm-system"},
		{"", "pods", "get", ""},
		{"", "pods/exec", "create", "- kube-system kubehsm-system"},
		{"", "*/exec", "create", "- kube-system kubehsm-system"},
		{"", "pods/log", "get", ""},
		{"apps", "deployments", "patch", "- kube-system kubehsm-system"},
		{"batch", "cronjobs", "create", "- kube-system kubehsm-system"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "update", "- team-a"},
		{"admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "delete", "- team-a"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "get", ""},
		{"kubehsm.github.io", "enrollmentpolicies", "patch", "- kubehsm-system"},
		{"kubehsm.github.io", "*", "create", "- kubehsm-system"},
		{"kubehsm.github.io", "requestreviews/status", "update", "- kubehsm-system"},
		{"kubehsm.github.io", "hardwaretokens", "list", ""},
	} {
		rule := []rbacv1.PolicyRule{{Verbs: []string{c.verb}, APIGroups: []string{c.group}, Resources: []string{c.resource}}}
		for _, namespace := range []string{everywhere, own, "kube-system", "kubehsm-system"} {
			word := namespace
			if namespace == everywhere {
				word = "-"
			}
			want := strings.Contains(" "+c.in+" ", " "+word+" ") ||
				// What escalates anywhere does so there, and what does so in one system namespace does in the other.
				strings.Contains(c.in, own) || namespace == "kube-system" && strings.Contains(c.in, "kubehsm-system")
			if g := GrantBy("user jane", "Role r", namespace, "b", rule); g.Escalates != want {
				t.Errorf("%s %s %s in %q escalates: %t", c.verb, c.group, c.resource, namespace, g.Escalates)
			}
		}
	}
}
