package approver

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// reviewOf is the review of the request, nil if there is none. One of an earlier
// request of the same name is deleted.
func (r *Requests) reviewOf(
	ctx context.Context,
	obj *certificatesv1.CertificateSigningRequest,
) (*clusterapi.RequestReview,
	error) {
	review := &clusterapi.RequestReview{}
	name := types.NamespacedName{Namespace: clusterapi.Namespace, Name: clusterapi.ReviewName(obj.Name)}
	err := r.Cache.Get(ctx, name, review)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case review.Spec.Request != obj.UID:
		return nil, client.IgnoreNotFound(r.Objects.Delete(ctx, review, client.Preconditions{UID: &review.UID}))
	}
	return review, nil
}

// spend makes a ticket good for this request alone that no token's entry on the roster names as used, see
// [Requests.claim]: a review without an owner stays when the cluster deletes the request.
func (r *Requests) spend(ctx context.Context, obj *certificatesv1.CertificateSigningRequest, d judge.Decision) error {
	if d.Terms == nil || d.Terms.Serial != "" && d.Statement != nil {
		return nil
	}
	if first, err := r.facts(ctx).UsedFor(d.Ticket); err != nil || first == obj.UID { // written before an approver was killed
		return err
	}
	err := r.Objects.Create(ctx, &clusterapi.RequestReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: clusterapi.TicketUse(d.Ticket)},
		Spec:       clusterapi.ReviewSpec{Request: obj.UID}})
	if apierrors.IsAlreadyExists(err) {
		err = fmt.Errorf("the ticket: %w", errBehind)
	}
	return err
}

// forget deletes the review of that name which [Requests.spend] has made, as it has no owner, once the ticket has ended.
func (r *Requests) forget(ctx context.Context, name string) error {
	use := &clusterapi.RequestReview{}
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: clusterapi.Namespace, Name: name}, use)
	switch {
	case err != nil || len(use.OwnerReferences) > 0:
		return client.IgnoreNotFound(err)
	case time.Since(use.CreationTimestamp.Time) < 2*ticket.MaxTTL:
		return errWaits
	}
	return client.IgnoreNotFound(r.Objects.Delete(ctx, use, client.Preconditions{UID: &use.UID}))
}

// reviewed is the request that a review is of.
func reviewed(_ context.Context, review client.Object) []string {
	for _, owner := range review.GetOwnerReferences() {
		return []string{owner.Name}
	}
	return []string{review.GetName()}
}

// toReview leaves the request to a person, and says what there is to know of it. Refused is why the decision
// that the review has is not carried out: that ends the decision, and the review is made again for another one.
func (r *Requests) toReview(ctx context.Context, obj *certificatesv1.CertificateSigningRequest,
	review *clusterapi.RequestReview, d judge.Decision, refused string) error {
	status := clusterapi.ReviewStatus{Reason: d.Reason, Message: csr.Brief(d.Message), AdminOnly: d.AdminOnly,
		Refused: csr.Brief(refused)}
	switch {
	case d.Token != nil:
		status.Token = d.Token.Name
	case d.Statement != nil:
		status.Token = d.Statement.Serial
	}
	switch {
	case review == nil:
	case refused != "":
		if err := r.Objects.Delete(ctx, review, client.Preconditions{UID: &review.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
		review = nil
	default:
		status.Refused = review.Status.Refused
	}
	if review == nil {
		review = &clusterapi.RequestReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: clusterapi.ReviewName(obj.Name),
				// It goes with its request.
				OwnerReferences: []metav1.OwnerReference{{APIVersion: certificatesv1.SchemeGroupVersion.String(),
					Kind: "CertificateSigningRequest", Name: obj.Name, UID: obj.UID}}},
			Spec: clusterapi.ReviewSpec{Request: obj.UID},
		}
		if err := r.Objects.Create(ctx, review); err != nil {
			return err
		}
		r.Metrics.decisions.WithLabelValues(string(judge.Person), d.Reason).Inc()
		r.Events.Eventf(obj, nil, corev1.EventTypeNormal, d.Reason, string(judge.Person), "a person decides: %s",
			status.Message)
	}
	if review.Status == status {
		return nil
	}
	review.Status = status
	return r.Objects.Status().Update(ctx, review)
}
