package csr

import (
	"context"
	"errors"
	"strings"

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
}

// WhoAmI asks the cluster who the caller is. Any authenticated user may ask;
// clusters before Kubernetes 1.28 give ErrNotServed.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	const op = "ask who the user is"
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got := &authenticationv1.SelfSubjectReview{}
	err := c.authentication.Post().Resource("selfsubjectreviews").
		Body(&authenticationv1.SelfSubjectReview{}).Do(ctx).Into(got)
	if err := apiError(op, c.host, err); err != nil {
		var e *Error
		if errors.As(err, &e) && errors.Is(e.Kind, ErrNotServed) {
			e.hint = "this cluster is older than Kubernetes 1.28, which is the first that can tell"
		}
		return Identity{}, err
	}
	info := got.Status.UserInfo
	id := Identity{User: info.Username, UID: info.UID, Groups: info.Groups}
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
func (c *Client) CanI(ctx context.Context, verb, group, resource, subresource, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got := &authorizationv1.SelfSubjectAccessReview{}
	err := c.authorization.Post().Resource("selfsubjectaccessreviews").
		Body(&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
				},
			},
		}).Do(ctx).Into(got)
	if err != nil {
		return false, apiError("ask what is allowed", c.host, err)
	}
	return got.Status.Allowed, nil
}

// MayRequest gives the rights that the caller lacks to file a request and to
// follow it; none is the good answer. Only create is indispensable.
func (c *Client) MayRequest(ctx context.Context) ([]Rule, error) {
	return c.missing(ctx, requesterRules())
}

// MayApprove gives the rights that the caller lacks to look at requests for a
// signer (empty means ClientSigner) and to decide on them.
func (c *Client) MayApprove(ctx context.Context, signer string) ([]Rule, error) {
	if signer == "" {
		signer = ClientSigner
	}
	return c.missing(ctx, approverRules(signer))
}

func (c *Client) missing(ctx context.Context, rules []Rule) ([]Rule, error) {
	var out []Rule
	for _, r := range rules {
		ok, err := c.allowed(ctx, r)
		if err != nil {
			return nil, err
		}
		if !ok {
			out = append(out, r)
		}
	}
	return out, nil
}

func (c *Client) allowed(ctx context.Context, r Rule) (bool, error) {
	res, sub, _ := strings.Cut(r.Resource, "/")
	ok, err := c.CanI(ctx, r.Verb, r.Group, res, sub, r.Name)
	if ok || err != nil || res != signers {
		return ok, err
	}
	// A right on all signers of a domain is spelt "domain/*" and counts as well.
	domain, _, _ := strings.Cut(r.Name, "/")
	return c.CanI(ctx, r.Verb, r.Group, res, sub, domain+"/*")
}
