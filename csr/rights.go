package csr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Identity is who the cluster takes the caller for.
type Identity struct {
	User   string
	UID    string
	Groups []string
	// Extra are attributes of the authenticator, such as the credential's id.
	Extra map[string][]string
	// At is when the cluster said so by its own clock, zero if it does not tell.
	At time.Time
}

// Rights tells who the caller is in one cluster, and what callers and users may do
// there. Everybody may ask about themselves.
type Rights struct{ *api }

// WhoAmI asks the cluster who the caller is. Any authenticated user may ask;
// clusters before Kubernetes 1.28 give ErrNotServed.
func (r Rights) WhoAmI(ctx context.Context) (Identity, error) {
	const op = "ask who the user is"
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	got := &authenticationv1.SelfSubjectReview{}
	err := r.authentication.Post().Resource("selfsubjectreviews").
		Body(&authenticationv1.SelfSubjectReview{}).Do(ctx).Into(got)
	if err := apiError(op, r.host, err); err != nil {
		var e *apierror.Error
		if errors.As(err, &e) && errors.Is(e.Kind, ErrNotServed) {
			e.Advice = "ask a cluster admin who you are there: Kubernetes before 1.28 cannot tell"
		}
		return Identity{}, err
	}
	info := got.Status.UserInfo
	id := Identity{User: info.Username, UID: info.UID, Groups: info.Groups, At: got.CreationTimestamp.Time}
	if len(info.Extra) > 0 {
		id.Extra = make(map[string][]string, len(info.Extra))
		for k, v := range info.Extra {
			id.Extra[k] = v
		}
	}
	return id, nil
}

// CanI asks the cluster whether the caller may do verb on the cluster-scoped
// resource of an API group. Subresource and name may be empty; an empty name
// asks for all.
func (r Rights) CanI(ctx context.Context, verb, group, resource, subresource, name string) (bool, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	got := &authorizationv1.SelfSubjectAccessReview{}
	err := r.authorization.Post().Resource("selfsubjectaccessreviews").
		Body(&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
				},
			},
		}).Do(ctx).Into(got)
	if err != nil {
		return false, apiError("ask what is allowed", r.host, err)
	}
	return got.Status.Allowed, nil
}

// MayRequest gives the rights that the caller lacks to file a request and to
// follow it; none is the good answer. Only create is indispensable.
func (r Rights) MayRequest(ctx context.Context) ([]Rule, error) {
	return r.missing(ctx, requesterRules())
}

func (r Rights) missing(ctx context.Context, rules []Rule) ([]Rule, error) {
	var out []Rule
	for _, rule := range rules {
		ok, err := r.allowed(ctx, rule)
		if err != nil {
			return nil, err
		}
		if !ok {
			out = append(out, rule)
		}
	}
	return out, nil
}

func (r Rights) allowed(ctx context.Context, rule Rule) (bool, error) {
	res, sub, _ := strings.Cut(rule.Resource, "/")
	ok, err := r.CanI(ctx, rule.Verb, rule.Group, res, sub, rule.Name)
	if ok || err != nil || res != signers {
		return ok, err
	}
	// A right on all signers of a domain is spelt "domain/*" and counts as well.
	domain, _, _ := strings.Cut(rule.Name, "/")
	return r.CanI(ctx, rule.Verb, rule.Group, res, sub, domain+"/*")
}

// HasAny asks the cluster whether the caller may do anything in namespace,
// or cluster-wide, beyond what every authenticated user may: reviews of
// itself. Rights in other namespaces are not seen. complete is false if
// the cluster could not list all rules (authorizers beside RBAC), so that a
// "no" is not certain.
func (r Rights) HasAny(ctx context.Context, namespace string) (has, complete bool, err error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	got := &authorizationv1.SelfSubjectRulesReview{}
	err = r.authorization.Post().Resource("selfsubjectrulesreviews").
		Body(&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}).Do(ctx).Into(got)
	if err != nil {
		return false, false, apiError("ask what is allowed", r.host, err)
	}
	return slices.ContainsFunc(got.Status.ResourceRules, beyondSelf), !got.Status.Incomplete, nil
}

// beyondSelf: the rule allows more than system:basic-user does.
func beyondSelf(rule authorizationv1.ResourceRule) bool {
	self := []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
	return slices.ContainsFunc(rule.Resources, func(res string) bool { return !slices.Contains(self, res) })
}

// forbidden explains a 403. Not every one is RBAC's: admission refuses with the
// same code. So the cluster is asked which of the needed rights are missing; if
// none is, or it will not say, its own words stand. The role is what to grant.
func (r Rights) forbidden(ctx context.Context, op string, err error, needed, role []Rule) error {
	missing, askErr := r.missing(ctx, needed)
	if askErr != nil && ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	if len(missing) == 0 {
		return &apierror.Error{Op: op, Kind: ErrRefused, Err: err, Detail: apierror.Cause(err), Advice: anonymousHint(err)}
	}
	out := &ForbiddenError{Op: op, Missing: missing, Rules: role, Err: err}
	if me, err := r.WhoAmI(ctx); err == nil {
		out.User = me.User
	}
	return out
}

// CheckApprover is the *ForbiddenError that Approve or Deny would meet for
// requests to signer, or nil; so that nobody decides in vain.
func (r Rights) CheckApprover(ctx context.Context, signer string) error {
	needed := approverRules(signer)[3:] // the verdict's own: who reads the request may read it
	missing, err := r.missing(ctx, needed)
	if errors.Is(err, ErrNotServed) || len(missing) == 0 && err == nil {
		return nil // the decision itself tells where nobody else can
	}
	if err != nil {
		return err
	}
	out := &ForbiddenError{Op: "decide on requests for " + signer, Missing: missing, Rules: approverRules(signer)}
	if me, err := r.WhoAmI(ctx); err == nil {
		out.User = me.User
	}
	return out
}
