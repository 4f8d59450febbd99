package csr

import (
	"cmp"
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decision is the approver's reason, kept in the request for everyone to read.
type Decision struct {
	// Reason is one CamelCase word; empty means "KubehsmApproved" or
	// "KubehsmDenied".
	Reason string
	// Message is a sentence; it may be empty.
	Message string
}

// Approve approves the request that the approver was shown. seen must be that
// object as it was read: the cluster refuses if the request was deleted,
// created anew or changed since, which is a *ConflictError. Approving an
// approved request changes nothing; a denied one cannot be approved.
// Missing rights give a *ForbiddenError.
func (c *Client) Approve(ctx context.Context, seen *certificatesv1.CertificateSigningRequest,
	d Decision) (*certificatesv1.CertificateSigningRequest, error) {
	return c.decide(ctx, seen, certificatesv1.CertificateApproved, d)
}

// Deny denies the request that the approver was shown, for good. What is said
// of Approve holds the other way round; an issued one cannot be denied.
func (c *Client) Deny(ctx context.Context, seen *certificatesv1.CertificateSigningRequest,
	d Decision) (*certificatesv1.CertificateSigningRequest, error) {
	return c.decide(ctx, seen, certificatesv1.CertificateDenied, d)
}

func (c *Client) decide(ctx context.Context, seen *certificatesv1.CertificateSigningRequest,
	what certificatesv1.RequestConditionType, d Decision) (*certificatesv1.CertificateSigningRequest, error) {
	verb, other := "approve", certificatesv1.CertificateDenied
	if what == certificatesv1.CertificateDenied {
		verb, other = "deny", certificatesv1.CertificateApproved
	}
	op := fmt.Sprintf("%s request %s", verb, seen.Name)
	if seen.UID == "" || seen.ResourceVersion == "" {
		return nil, &InputError{Field: "request",
			Problem: "was not read from a cluster, so the decision cannot be bound to it"}
	}
	if condition(seen, what) != nil {
		return seen, nil
	}
	if condition(seen, other) != nil {
		return nil, &ConflictError{Op: op, Status: StateOf(seen), Change: Decided}
	}
	want := seen.DeepCopy()
	want.Status.Conditions = append(want.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:           what,
		Status:         corev1.ConditionTrue,
		Reason:         cmp.Or(d.Reason, "Kubehsm"+string(what)),
		Message:        d.Message,
		LastUpdateTime: metav1.Now(),
	})
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	got := &certificatesv1.CertificateSigningRequest{}
	err := c.certificates.Put().Resource(resource).Name(seen.Name).SubResource("approval").Body(want).Do(ctx).Into(got)
	switch {
	case err == nil:
		return got, nil
	case apierrors.IsConflict(err):
		return nil, c.conflict(ctx, op, RefOf(seen), err)
	case isObjectNotFound(err):
		return nil, &ConflictError{Op: op, Status: StateOf(seen), Change: Gone, Err: err}
	case IsForbidden(err):
		return nil, c.Rights().forbidden(ctx, op, err, approverRules(seen.Spec.SignerName)[3:],
			approverRules(seen.Spec.SignerName))
	default:
		return nil, apiError(op, c.host, err)
	}
}

// Change is what happened to a request since it was shown.
type Change int

// The changes a ConflictError tells apart.
const (
	// Changed: something about it is different now.
	Changed Change = iota
	// Decided: somebody else has approved or denied it.
	Decided
	// Gone: it was deleted.
	Gone
	// Recreated: it was deleted, and its name is another request's now.
	Recreated
)

// ConflictError: the request is no longer what the caller was shown, and
// nothing was done to it.
type ConflictError struct {
	// Op says what was tried.
	Op     string
	Change Change
	// Status is the request as it is now, or as last seen if it is gone.
	Status Status
	// Err is the cluster's answer; nil if it was not asked.
	Err error
}

func (e *ConflictError) Error() string {
	switch e.Change {
	case Decided:
		return fmt.Sprintf("%s: it is already %s", e.Op, e.Status.State)
	case Gone:
		return e.Op + ": it has been deleted"
	case Recreated:
		return e.Op + ": it has been deleted, and another request has its name now"
	default:
		return e.Op + ": it has changed since it was shown"
	}
}

// Unwrap gives the cluster's answer.
func (e *ConflictError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *ConflictError) Hint() string {
	switch e.Change {
	case Decided:
		return "a decision cannot be taken back; to end an approved user's access, remove their role bindings"
	case Gone:
		return "the requester has to file a new request"
	default:
		return "nothing was done: look at the request again, then decide"
	}
}

// conflict reads the request once more to tell what is different.
func (c *Client) conflict(ctx context.Context, op string, ref Ref, err error) error {
	out := &ConflictError{Op: op, Err: err}
	now, getErr := c.get(ctx, ref.Name)
	switch {
	case isObjectNotFound(getErr):
		out.Change = Gone
	case getErr != nil:
		// The conflict itself is certain; only its kind stays unknown.
	case ref.UID != "" && now.UID != ref.UID:
		out.Change, out.Status = Recreated, StateOf(now)
	default:
		out.Status = StateOf(now)
		if out.Status.State != Pending {
			out.Change = Decided
		}
	}
	return out
}
