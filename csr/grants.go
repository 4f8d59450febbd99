package csr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Grant is an RBAC binding that names a user or one of their groups. All text
// in it comes from the cluster.
type Grant struct {
	// To is whom it names: "user jane", "group dev".
	To string
	// Role is the role's kind and name: "ClusterRole edit".
	Role string
	// Namespace is where it holds; empty means everywhere.
	Namespace string
	// Binding is the binding's name.
	Binding string
	// Powers are what in the role amounts to more than it seems, in words; nil
	// also if the role could not be read, which Unread tells.
	Powers []string
	Unread bool
	// Escalates: with it one can take the rights of other people, by impersonating
	// them, handing out or extending roles, or approving requests; or those of the
	// cluster's own parts, where these are.
	Escalates bool
}

// GrantBy is what a binding gives to those it names, by the rules of its role.
func GrantBy(to, role, namespace, binding string, rules []rbacv1.PolicyRule) Grant {
	return powersOf(rules).grant(to, role, namespace, binding)
}

// Grants are what a user with groups may do by RBAC. What every authenticated
// user may do is left out.
type Grants struct {
	List []Grant
	// Everything: they may do anything (cluster-admin), by the API server's own
	// word or by a role that says so.
	Everything bool
	// Unknown says, in words, what could not be looked up; empty if all was seen.
	Unknown []string
}

// everything is the power of cluster-admin.
const everything = "everything"

// GrantsOf looks up the role bindings that name the subject's user or groups,
// page by page, and their roles. Missing rights are no error: they end up in
// Unknown.
func (r Rights) GrantsOf(ctx context.Context, s Subject) (Grants, error) {
	var g Grants
	look := grantLook{rights: r, subject: s, roles: map[string]powers{}}
	for _, kind := range []string{"clusterrolebindings", "rolebindings"} {
		err := look.bindings(ctx, kind, &g)
		switch {
		case IsForbidden(err):
			g.Unknown = append(g.Unknown, "you may not list "+kind)
		case apierrors.IsNotFound(err):
			g.Unknown = append(g.Unknown, "the cluster has no "+kind+": it does not decide by RBAC")
		case err != nil:
			return g, apiError("look up "+kind, r.host, err)
		}
	}
	all, err := r.mayDoAnything(ctx, s)
	switch {
	case IsForbidden(err), apierrors.IsNotFound(err):
		if len(g.Unknown) > 0 {
			g.Unknown = append(g.Unknown, "you may not ask with subjectaccessreviews")
		}
	case err != nil:
		return g, apiError("ask what the user may do", r.host, err)
	}
	g.Everything = all || slices.ContainsFunc(g.List, func(x Grant) bool {
		return x.Namespace == "" && slices.Contains(x.Powers, everything)
	})
	return g, nil
}

// mayDoAnything asks all authorizers, RBAC or not.
func (r Rights) mayDoAnything(ctx context.Context, s Subject) (bool, error) {
	return r.mayDo(ctx, s, authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"})
}

func (r Rights) mayDo(ctx context.Context, s Subject, what authorizationv1.ResourceAttributes) (bool, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	got := &authorizationv1.SubjectAccessReview{}
	err := r.authorization.Post().Resource("subjectaccessreviews").Body(&authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: s.User, Groups: append(slices.Clone(s.Groups), "system:authenticated"), // the API server adds this group
			ResourceAttributes: &what,
		},
	}).Do(ctx).Into(got)
	return got.Status.Allowed, err
}

type powers struct {
	words  []string
	unread bool
	// escalates is where a binding lets its holder take the rights of others.
	escalates reach
}

func (p powers) grant(to, role, namespace, binding string) Grant {
	return Grant{To: to, Role: role, Namespace: namespace, Binding: binding, Powers: p.words, Unread: p.unread,
		Escalates: p.escalates == anywhere || p.escalates == amongSystem &&
			slices.Contains([]string{"", "kube-system", systemNamespace}, namespace)}
}

// reach is where a right lets its holder take the rights of others.
type reach int

const (
	// amongSystem: in all namespaces at once, in that of the cluster's own parts, and in
	// kubehsm's. What runs in others has the rights that its namespace was given.
	amongSystem reach = iota + 1 // 0 is nowhere
	anywhere
)

// systemNamespace is where the approver and its objects are (clusterapi.Namespace, of which this package knows
// nothing).
const systemNamespace = "kubehsm-system"

// MayFile asks whether s may file requests. Most callers may not ask about others.
func (r Rights) MayFile(ctx context.Context, s Subject) (bool, error) {
	may, err := r.mayDo(ctx, s, authorizationv1.ResourceAttributes{Verb: "create", Group: certificatesv1.GroupName,
		Resource: "certificatesigningrequests"})
	return may, apiError("ask who may file requests", r.host, err)
}

// grantLook is one look-up; roles are those read already.
type grantLook struct {
	rights  Rights
	subject Subject
	roles   map[string]powers
}

func (l *grantLook) bindings(ctx context.Context, kind string, g *Grants) error {
	next := ""
	for {
		items, token, err := l.page(ctx, kind, next)
		if err != nil {
			return err
		}
		for _, b := range items {
			if err := l.add(ctx, b, g); err != nil {
				return err
			}
		}
		if next = token; next == "" {
			return nil
		}
	}
}

// page reads one page of bindings of either kind: they have the same fields.
func (l *grantLook) page(ctx context.Context, kind, token string) ([]rbacv1.RoleBinding, string, error) {
	var list rbacv1.RoleBindingList
	err := l.rights.rbac(ctx, "/"+kind, map[string]string{"limit": fmt.Sprint(DefaultPageSize), "continue": token}, &list)
	return list.Items, list.Continue, err
}

// rbac reads path below the API group.
func (r Rights) rbac(ctx context.Context, path string, params map[string]string, to any) error {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	req := r.certificates.Get().AbsPath("/apis/" + rbacv1.SchemeGroupVersion.String() + path)
	for name, value := range params {
		if value != "" {
			req = req.Param(name, value)
		}
	}
	raw, err := req.Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

func (l *grantLook) add(ctx context.Context, b rbacv1.RoleBinding, g *Grants) error {
	to := l.names(b.Subjects)
	if to == "" {
		return nil
	}
	p, err := l.role(ctx, b.RoleRef, b.Namespace)
	if err != nil {
		return err
	}
	g.List = append(g.List, p.grant(to, b.RoleRef.Kind+" "+b.RoleRef.Name, b.Namespace, b.Name))
	return nil
}

// names says whom of the subject the binding names, or "".
func (l *grantLook) names(subjects []rbacv1.Subject) string {
	var out []string
	for _, s := range subjects {
		switch {
		case s.Kind == "User" && s.Name == l.subject.User:
			out = append(out, "user "+s.Name)
		case s.Kind == "Group" && slices.Contains(l.subject.Groups, s.Name):
			out = append(out, "group "+s.Name)
		}
	}
	return strings.Join(out, ", ")
}

func (l *grantLook) role(ctx context.Context, ref rbacv1.RoleRef, namespace string) (powers, error) {
	path := "/namespaces/" + namespace + "/roles/" + ref.Name
	if ref.Kind == "ClusterRole" {
		path = "/clusterroles/" + ref.Name
	}
	if p, ok := l.roles[path]; ok {
		return p, nil
	}
	var role rbacv1.Role
	err := l.rights.rbac(ctx, path, nil, &role)
	p := powersOf(role.Rules)
	p.unread = IsForbidden(err)
	if err != nil && !p.unread && !apierrors.IsNotFound(err) { // a role that is not there gives nothing
		return p, err
	}
	l.roles[path] = p
	return p, nil
}

// dangerous are the rights with which one can take others (Kubernetes
// documentation, "RBAC good practices: privilege escalation risks").
var dangerous = []struct {
	group     string
	resources []string
	verbs     []string
	words     string
	escalates reach // see Grant
}{
	{"", []string{"secrets"}, []string{"get", "list", "watch"}, "read secrets", amongSystem},
	{"", []string{"secrets"}, []string{"create", "update", "patch"}, "write secrets", amongSystem},
	{"", []string{"users", "groups"}, []string{"impersonate"}, "act as others", anywhere},
	{"", []string{"serviceaccounts"}, []string{"impersonate"}, "act as others", amongSystem},
	{"", []string{"serviceaccounts/token"}, []string{"create"}, "act as others", amongSystem},
	{"rbac.authorization.k8s.io", []string{"roles", "clusterroles"}, []string{"escalate"},
		"extend roles beyond their own rights", anywhere},
	{"rbac.authorization.k8s.io", []string{"roles", "clusterroles"}, []string{"bind"}, "hand out roles", anywhere},
	{"certificates.k8s.io", []string{"certificatesigningrequests/approval"}, []string{"update", "patch"},
		"approve certificate requests", anywhere},
	{"", []string{"pods/exec", "pods/attach", "pods/ephemeralcontainers"}, []string{"create", "get", "update", "patch"},
		"run commands in pods", amongSystem},
	{"", []string{"pods", "replicationcontrollers"}, change, "run pods", amongSystem},
	{"apps", []string{"deployments", "daemonsets", "statefulsets", "replicasets"}, change, "run pods", amongSystem},
	{"batch", []string{"jobs", "cronjobs"}, change, "run pods", amongSystem},
	{"", []string{"nodes/proxy"}, []string{"get", "create"}, "reach the kubelets", amongSystem},
	{"admissionregistration.k8s.io", []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
		"mutatingadmissionpolicybindings"}, changeOrDelete, "change what is admitted", anywhere},
	{"kubehsm.github.io", []string{"hardwaretokens", "hardwaretokens/status", "requestreviews", "requestreviews/status",
		"enrollmentpolicies"}, changeOrDelete, "change what is approved", amongSystem},
}

var (
	change         = []string{"create", "update", "patch"}
	changeOrDelete = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// powersOf names what in the rules is more than it seems.
func powersOf(rules []rbacv1.PolicyRule) powers {
	has := func(list []string, want ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == "*" || slices.Contains(want, s) })
	}
	// RBAC has "*/exec" for a subresource of every resource.
	hasResource := func(list, want []string) bool {
		return slices.ContainsFunc(want, func(w string) bool {
			_, sub, ok := strings.Cut(w, "/")
			return has(list, w) || ok && slices.Contains(list, "*/"+sub)
		})
	}
	var p powers
	for _, r := range rules {
		if has(r.APIGroups) && has(r.Resources) && has(r.Verbs) && len(r.ResourceNames) == 0 {
			return powers{words: []string{everything}, escalates: anywhere}
		}
		for _, d := range dangerous {
			if !has(r.APIGroups, d.group) || !hasResource(r.Resources, d.resources) || !has(r.Verbs, d.verbs...) {
				continue
			}
			p.escalates = max(p.escalates, d.escalates)
			if !slices.Contains(p.words, d.words) {
				p.words = append(p.words, d.words)
			}
		}
	}
	return p
}

// String says the grant in words.
func (g Grant) String() string {
	where := "everywhere"
	if g.Namespace != "" {
		where = "in namespace " + g.Namespace
	}
	s := fmt.Sprintf("%s has %s %s (binding %s)", g.To, g.Role, where, g.Binding)
	switch {
	case g.Unread:
		s += ", whose rules you may not read"
	case slices.Contains(g.Powers, everything):
		s += ": everything"
	case len(g.Powers) > 0:
		s += ", which can " + strings.Join(g.Powers, ", ")
	}
	return s
}
