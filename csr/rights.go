package csr

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// HasRights asks the cluster whether the caller may do anything in namespace,
// or cluster-wide, beyond what every authenticated user may: reviews of
// itself. Rights in other namespaces are not seen. complete is false if
// the cluster could not list all rules (authorizers beside RBAC), so that a
// "no" is not certain.
func (c *Client) HasRights(ctx context.Context, namespace string) (has, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got := &authorizationv1.SelfSubjectRulesReview{}
	err = c.authorization.Post().Resource("selfsubjectrulesreviews").
		Body(&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}).Do(ctx).Into(got)
	if err != nil {
		return false, false, apiError("ask what is allowed", c.host, err)
	}
	return slices.ContainsFunc(got.Status.ResourceRules, beyondSelf), !got.Status.Incomplete, nil
}

// beyondSelf: the rule allows more than system:basic-user does.
func beyondSelf(r authorizationv1.ResourceRule) bool {
	self := []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
	return slices.ContainsFunc(r.Resources, func(res string) bool { return !slices.Contains(self, res) })
}
