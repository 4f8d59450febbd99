package approver

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// sure is how long a right must be missing: the API server refuses everything for a moment after its own start.
const sure = 15 * time.Second

// Rights tells what the approver may not do, though its manifests say that it may.
type Rights struct {
	// Manifest is the YAML of the approver's roles.
	Manifest []byte
	API      client.Client
	Events   events.EventRecorder
	Metrics  *Metrics
}

// Run looks every five minutes, until ctx ends. Each right that is missing is a metric, an Event on the
// approver's Deployment and a line in the log. The error is of a manifest that cannot be read.
func (r Rights) Run(ctx context.Context) error {
	all, err := rights(r.Manifest)
	if err != nil {
		return err
	}
	for {
		missing := r.missing(ctx, all)
		if len(missing) > 0 && wait(ctx, sure) {
			missing = r.missing(ctx, missing)
		}
		r.Metrics.missing.Set(float64(len(missing)))
		for _, m := range missing {
			right := wordsOf(m)
			words := "the approver may not " + right + ": apply the manifests of its version"
			log.FromContext(ctx).Info(words)
			r.Events.Eventf(&corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: clusterapi.Namespace,
				Name: "kubehsm-cluster"}, nil, corev1.EventTypeWarning, clusterapi.RightsMissing,
				right, // the action: Events of the same action are one
				"%s", words)
		}
		if !wait(ctx, again) {
			return nil
		}
	}
}

// wait tells whether d has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// missing are those of all that the API server says the approver has not.
func (r Rights) missing(ctx context.Context, all []authorizationv1.ResourceAttributes) (
	missing []authorizationv1.ResourceAttributes) {
	for _, a := range all {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
		if err := r.API.Create(ctx, review); err != nil {
			log.FromContext(ctx).Error(err, "ask what the approver may do")
			return nil
		}
		if !review.Status.Allowed {
			missing = append(missing, a)
		}
	}
	return missing
}

// rights are what the roles in a manifest give, one by one.
func rights(manifest []byte) (all []authorizationv1.ResourceAttributes, err error) {
	for doc := range strings.SplitSeq(string(manifest), "\n---\n") {
		var role rbacv1.Role // a cluster role has no namespace
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			return nil, fmt.Errorf("the approver's roles: %w", err)
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						for _, verb := range rule.Verbs {
							kind, sub, _ := strings.Cut(resource, "/")
							all = append(all, authorizationv1.ResourceAttributes{Namespace: role.Namespace, Verb: verb,
								Group: group, Resource: kind, Subresource: sub, Name: name})
						}
					}
				}
			}
		}
	}
	return all, nil
}

// wordsOf says what a right is to, such as "update hardwaretokens.kubehsm.github.io/status in kubehsm-system".
func wordsOf(a authorizationv1.ResourceAttributes) string {
	words := a.Verb + " " + a.Resource
	if a.Group != "" {
		words += "." + a.Group
	}
	if a.Subresource != "" {
		words += "/" + a.Subresource
	}
	if a.Name != "" {
		words += " " + a.Name
	}
	if a.Namespace != "" {
		words += " in " + a.Namespace
	}
	return words
}
