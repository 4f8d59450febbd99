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
}

// Grants are what a user with groups may do by RBAC. What every authenticated
// user may do is left out.
type Grants struct {
	List []Grant
	// Everything: they may do anything (cluster-admin), by the API server's own
	// word or by that role.
	Everything bool
	// Unknown says, in words, what could not be looked up; empty if all was seen.
	Unknown []string
}

// GrantsOf looks up the role bindings that name the subject's user or groups,
// page by page. Missing rights are no error: they end up in Unknown.
func (r Rights) GrantsOf(ctx context.Context, s Subject) (Grants, error) {
	var g Grants
	for _, kind := range []string{"clusterrolebindings", "rolebindings"} {
		err := r.bindings(ctx, kind, s, &g)
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
		return x.Namespace == "" && x.Role == "ClusterRole cluster-admin"
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

// MayFile asks whether s may file requests. Most callers may not ask about others.
func (r Rights) MayFile(ctx context.Context, s Subject) (bool, error) {
	may, err := r.mayDo(ctx, s, authorizationv1.ResourceAttributes{Verb: "create", Group: certificatesv1.GroupName,
		Resource: "certificatesigningrequests"})
	return may, apiError("ask who may file requests", r.host, err)
}

// bindings adds the bindings of a kind that name the subject. Both kinds have the same fields.
func (r Rights) bindings(ctx context.Context, kind string, s Subject, g *Grants) error {
	next := ""
	for {
		var list rbacv1.RoleBindingList
		if err := r.rbac(ctx, "/"+kind, map[string]string{"limit": fmt.Sprint(DefaultPageSize), "continue": next},
			&list); err != nil {
			return err
		}
		for _, b := range list.Items {
			if to := s.named(b.Subjects); to != "" {
				g.List = append(g.List, Grant{To: to, Role: b.RoleRef.Kind + " " + b.RoleRef.Name, Namespace: b.Namespace,
					Binding: b.Name})
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
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

// named says whom of the subject a binding names, or "".
func (s Subject) named(subjects []rbacv1.Subject) string {
	var out []string
	for _, b := range subjects {
		switch {
		case b.Kind == "User" && b.Name == s.User:
			out = append(out, "user "+b.Name)
		case b.Kind == "Group" && slices.Contains(s.Groups, b.Name):
			out = append(out, "group "+b.Name)
		}
	}
	return strings.Join(out, ", ")
}

// String says the grant in words.
func (g Grant) String() string {
	where := "everywhere"
	if g.Namespace != "" {
		where = "in namespace " + g.Namespace
	}
	return fmt.Sprintf("%s has %s %s (binding %s)", g.To, g.Role, where, g.Binding)
}
