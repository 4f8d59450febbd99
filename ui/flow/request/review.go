package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// reviews are those of a cluster where the approver runs: who may not approve for a
// signer decides on the review of the request, and the approver carries it out.
type reviews struct {
	rest rest.Interface
	host string
}

// errNoReviews: the cluster has none, or the caller may not read them.
var errNoReviews = errors.New("no reviews of requests can be read")

func (q Requests) reviews(ctx context.Context, kubeContext string) (*reviews, error) {
	config, err := q.access.Config(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	c, err := cluster.ApproverAPI(config)
	return &reviews{c, config.Host}, err
}

// of is the review of a request, nil if there is none yet; errNoReviews where there
// never is one.
func (r *reviews) of(
	ctx context.Context,
	obj *certificatesv1.CertificateSigningRequest,
) (*clusterapi.RequestReview, error) {
	review := &clusterapi.RequestReview{}
	err := r.rest.Get().Namespace(clusterapi.Namespace).Resource("requestreviews").
		Name(clusterapi.ReviewName(obj.Name)).Do(ctx).Into(review)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && !served(err, "requestreviews"),
		obj.Spec.SignerName != csr.ClientSigner:
		return nil, errNoReviews
	case apierrors.IsNotFound(err), err == nil && review.Spec.Request != obj.UID:
		return nil, nil
	case err != nil:
		return nil, apierror.Of("read the review of request "+obj.Name, r.host, err)
	}
	return review, nil
}

// served tells whether a cluster that knows a resource has answered that there is no such object.
func served(notFound error, resource string) bool {
	var s apierrors.APIStatus
	return !apierror.NotServed(notFound) && errors.As(notFound, &s) && s.Status().Details != nil &&
		s.Status().Details.Kind == resource
}

// reviewCheck adds what the approver says of the request.
func (q Requests) reviewCheck(kubeContext string) Check {
	return func(ctx context.Context, _ *csr.Client, v *View) error {
		all, err := q.reviews(ctx, kubeContext)
		if err != nil {
			return err
		}
		review, err := all.of(ctx, v.Object)
		switch {
		case errors.Is(err, errNoReviews):
			return nil
		case err != nil || review == nil:
			return err
		}
		if review.Status.AdminOnly {
			v.Warnings = append(v.Warnings, "only an admin can approve it: "+review.Status.Message)
		}
		return nil
	}
}

// How long the approver is waited for, and how often it is looked.
const (
	reviewPatience = 30 * time.Second
	reviewPause    = 200 * time.Millisecond
)

// byReview has the approver carry out the decision on the request that seen shows.
func (r *reviews) byReview(ctx context.Context, client *csr.Client, seen *certificatesv1.CertificateSigningRequest,
	d clusterapi.PersonDecision) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	var on types.UID // UID of the review that has the decision
	for {
		obj, err := client.Get(ctx, seen.Name)
		if err != nil {
			return nil, r.late(ctx, seen.Name, on != "", err)
		}
		if obj.UID != seen.UID || csr.StateOf(obj).State != csr.Pending {
			return outcome(seen, obj, d.Approve)
		}
		review, err := r.of(ctx, obj)
		switch {
		case err != nil:
			return nil, r.late(ctx, seen.Name, on != "", err)
		case review == nil:
		case on != "" && review.UID != on && review.Status.Refused != "": // a refusal ends the decision, and its review
			return nil, hinting.With(fmt.Errorf("request %s was not approved: %s", seen.Name, review.Status.Refused),
				"deny it with `kubehsm csr deny "+seen.Name+"`, or have an admin approve it")
		case on == "" && review.Spec.Decision == nil:
			switch err := r.write(ctx, review, d); {
			case err == nil:
				on = review.UID
			case !apierrors.IsConflict(err): // the next look sees what has changed
				return nil, apierror.Of("decide on request "+review.Name, r.host, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, r.late(ctx, seen.Name, on != "", ctx.Err())
		case <-time.After(reviewPause):
		}
	}
}

// write writes the decision on the review, unless somebody else was first.
func (r *reviews) write(ctx context.Context, review *clusterapi.RequestReview, d clusterapi.PersonDecision) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": review.ResourceVersion},
		"spec":     map[string]any{"decision": d}})
	if err != nil {
		return err
	}
	return r.rest.Patch(types.MergePatchType).Namespace(clusterapi.Namespace).Resource("requestreviews").Name(review.Name).
		Body(patch).Do(ctx).Error()
}

// late is the error of a wait for the approver that ended with err.
func (r *reviews) late(ctx context.Context, name string, written bool, err error) error {
	switch {
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return err
	case written:
		return hinting.With(fmt.Errorf("the approver has not carried out the decision on request %s yet: %w", name, err),
			"the decision stands, and is carried out once the approver runs: see `kubehsm csr show "+name+"`")
	}
	return hinting.With(fmt.Errorf("the approver has no review of request %s yet: %w", name, err),
		"ask a cluster admin whether the approver runs: kubectl -n kubehsm-system get pods")
}

// outcome is the request after it was decided on; a decision other than the one
// wanted is a conflict.
func outcome(
	seen, now *certificatesv1.CertificateSigningRequest,
	approve bool,
) (*certificatesv1.CertificateSigningRequest,
	error) {
	verb, denied := "deny", csr.StateOf(now).State == csr.Denied
	if approve {
		verb = "approve"
	}
	op := fmt.Sprintf("%s request %s", verb, seen.Name)
	switch {
	case now.UID != seen.UID:
		return nil, &csr.ConflictError{Op: op, Status: csr.StateOf(now), Change: csr.Recreated}
	case approve == denied:
		return nil, &csr.ConflictError{Op: op, Status: csr.StateOf(now), Change: csr.Decided}
	}
	return now, nil
}
