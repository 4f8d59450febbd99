package csr

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

const signers = "signers"

// Rule is one right in the terms of RBAC, for cluster-scoped resources.
type Rule struct {
	Verb string
	// Group is the API group, Resource the plural, with "/subresource" if any.
	Group, Resource string
	// Name limits the right to one object; empty means all.
	Name string
}

// String says the rule in words.
func (r Rule) String() string {
	s := r.Verb + " on " + r.Resource
	if r.Name != "" {
		s += " named " + r.Name
	}
	return s
}

func (r Rule) sameObject(o Rule) bool {
	return r.Group == o.Group && r.Resource == o.Resource && r.Name == o.Name
}

// requesterRules is what it takes to file a request and follow it. Who may list or watch requests sees what others have
// filed, and can file it again.
func requesterRules() []Rule {
	var out []Rule
	for _, verb := range []string{"create", "get"} {
		out = append(out, Rule{Verb: verb, Group: certificatesv1.GroupName, Resource: resource})
	}
	return out
}

// approverRules is what it takes to approve or deny for a signer.
func approverRules(signer string) []Rule {
	return []Rule{
		{Verb: "get", Group: certificatesv1.GroupName, Resource: resource},
		{Verb: "list", Group: certificatesv1.GroupName, Resource: resource},
		{Verb: "watch", Group: certificatesv1.GroupName, Resource: resource},
		{Verb: "update", Group: certificatesv1.GroupName, Resource: resource + "/approval"},
		{Verb: "approve", Group: certificatesv1.GroupName, Resource: signers, Name: signer},
	}
}

// ForbiddenError: RBAC does not allow a call. It carries what to send to an
// admin who can change that.
type ForbiddenError struct {
	// Op says what was tried.
	Op string
	// User is who the cluster takes the caller for; empty if it did not say.
	User string
	// Missing are the rights without which the call cannot work.
	Missing []Rule
	// Rules are the rights of the whole role, Missing among them.
	Rules []Rule
	// Err is the cluster's answer.
	Err error
}

func (e *ForbiddenError) Error() string {
	who := "you are"
	if e.User != "" {
		who = e.User + " is"
	}
	var words []string
	for _, r := range e.Missing {
		words = append(words, r.String())
	}
	return fmt.Sprintf("%s: %s not allowed to (needs %s)", e.Op, who, strings.Join(words, ", "))
}

// Unwrap gives the cluster's answer.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// Hint says whom to ask; Grant has the text to send.
func (e *ForbiddenError) Hint() string {
	return "send the lines below to an admin of the cluster, who can allow it"
}

// Grant is text for a shell that gives the rights: what to send to an admin.
func (e *ForbiddenError) Grant() string {
	if cmd := e.command(); cmd != "" {
		return strings.ReplaceAll(cmd, "; kubectl", "\nkubectl") + "\n"
	}
	return heredoc(e.manifest()...)
}

func (e *ForbiddenError) role() string {
	for _, r := range e.Rules {
		switch r.Verb {
		case "approve":
			return "kubehsm-approver"
		case "create":
			return "kubehsm-requester"
		}
	}
	return "kubehsm-" + e.Rules[0].Verb
}

func (e *ForbiddenError) user() string {
	if e.User == "" {
		return "USER"
	}
	return e.User
}

// command is the role as kubectl commands on one line, which can only say one
// resource with the same verbs.
func (e *ForbiddenError) command() string {
	var verbs []string
	first := e.Rules[0]
	for _, r := range e.Rules {
		if !r.sameObject(first) || r.Name != "" {
			return ""
		}
		verbs = append(verbs, r.Verb)
	}
	return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=%[2]s --resource=%[3]s.%[4]s"+
		"; kubectl create clusterrolebinding %[6]s --clusterrole=%[1]s --user=%[5]s",
		e.role(), strings.Join(verbs, ","), first.Resource, first.Group, shell.Quote(e.user()), e.binding())
}

// binding is named after the user too, since the role is shared; the hash keeps
// apart users whose names look alike without their punctuation.
func (e *ForbiddenError) binding() string {
	parts := []string{e.role(), nameSafe(e.user(), maxNameUser), hashHex([]byte(e.user()))[:6]}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "-")
}

func (e *ForbiddenError) manifest() []any {
	const api = "rbac.authorization.k8s.io"
	var rules []map[string]any
	var verbs []string
	for i, r := range e.Rules {
		verbs = append(verbs, r.Verb)
		if next := i + 1; next < len(e.Rules) && e.Rules[next].sameObject(r) {
			continue
		}
		rule := map[string]any{"apiGroups": []string{r.Group}, "resources": []string{r.Resource}, "verbs": verbs}
		if r.Name != "" {
			rule["resourceNames"] = []string{r.Name}
		}
		rules = append(rules, rule)
		verbs = nil
	}
	return []any{map[string]any{
		"apiVersion": api + "/v1", "kind": "ClusterRole",
		"metadata": map[string]any{"name": e.role()},
		"rules":    rules,
	}, map[string]any{
		"apiVersion": api + "/v1", "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": e.binding()},
		"roleRef":  map[string]any{"apiGroup": api, "kind": "ClusterRole", "name": e.role()},
		"subjects": []map[string]any{{"apiGroup": api, "kind": "User", "name": e.user()}},
	}}
}

// heredoc is a command that applies the objects, which always marshal. The quoted
// end mark keeps the shell's hands off them.
func heredoc(objects ...any) string {
	var docs []string
	for _, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			panic("csr: marshal objects: " + err.Error())
		}
		docs = append(docs, string(data))
	}
	return "kubectl apply -f - <<'EOF'\n" + strings.Join(docs, "---\n") + "EOF\n"
}

func anonymousHint(err error) string {
	if strings.Contains(err.Error(), `"system:anonymous"`) {
		return "no credential reached the cluster: the context has none, or a proxy took it off"
	}
	return ""
}

// IsForbidden reports whether err is a refusal of the cluster with code 403,
// explained or not.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) && apierror.Withheld(err) == "" }
