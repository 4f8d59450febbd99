package csr

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// State is where a request is in its life. It only ever moves on: from Pending
// to Denied, or through Approved to Issued or Failed.
type State int

// The states of a request. That it was deleted is no state of the object; Wait
// tells it with a *DeletedError.
const (
	// Pending: nobody has decided.
	Pending State = iota
	// Approved: decided, but the signer has not acted yet.
	Approved
	// Issued: the certificate is there.
	Issued
	// Denied: decided for good.
	Denied
	// Failed: approved, but the signer will not sign it; for good.
	Failed
)

// String is the state in one lower-case word.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Approved:
		return "approved"
	case Issued:
		return "issued"
	case Denied:
		return "denied"
	case Failed:
		return "failed"
	default:
		return fmt.Sprintf("state %d", int(s))
	}
}

// Final reports whether nothing more will happen.
func (s State) Final() bool { return s == Issued || s == Denied || s == Failed }

// Status is the state of a request at one moment. Reason and Message are of
// the condition that decided the state: untrusted text from the cluster.
type Status struct {
	State   State
	Reason  string
	Message string
	// Since is when the state was entered, by the cluster's clock; zero if unknown.
	Since time.Time
	// Object is the request as last read; nil before the first answer.
	Object *certificatesv1.CertificateSigningRequest
	// Note is something to tell the user once, from Wait only; mostly empty.
	Note string
	// Lost is why there is no connection to the cluster at the moment, from
	// Wait only. It keeps trying; the rest of the status is as last seen.
	Lost error
}

// StateOf reads the state from the object's conditions and certificate.
// A denial counts before all else, a certificate before a failure.
func StateOf(obj *certificatesv1.CertificateSigningRequest) Status {
	s := Status{State: Pending, Since: obj.CreationTimestamp.Time, Object: obj}
	denied := condition(obj, certificatesv1.CertificateDenied)
	failed := condition(obj, certificatesv1.CertificateFailed)
	approved := condition(obj, certificatesv1.CertificateApproved)
	switch {
	case denied != nil:
		s.enter(Denied, denied)
	case len(obj.Status.Certificate) > 0:
		s.enter(Issued, approved)
	case failed != nil:
		s.enter(Failed, failed)
	case approved != nil:
		s.enter(Approved, approved)
	}
	return s
}

func (s *Status) enter(state State, c *certificatesv1.CertificateSigningRequestCondition) {
	s.State, s.Since = state, time.Time{}
	if c == nil {
		return
	}
	s.Reason, s.Message, s.Since = c.Reason, c.Message, c.LastTransitionTime.Time
	if s.Since.IsZero() {
		s.Since = c.LastUpdateTime.Time
	}
}

// condition finds a condition that holds. Objects written before v1 have no
// status in it, which meant true.
func condition(obj *certificatesv1.CertificateSigningRequest,
	t certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range obj.Status.Conditions {
		c := &obj.Status.Conditions[i]
		if c.Type == t && (c.Status == corev1.ConditionTrue || c.Status == "") {
			return c
		}
	}
	return nil
}

// Err is the error of a final state without a certificate: *DeniedError or
// *FailedError; nil in every other state.
func (s Status) Err() error {
	switch s.State {
	case Denied:
		return &DeniedError{Status: s}
	case Failed:
		return &FailedError{Status: s}
	default:
		return nil
	}
}

// subject names the request that the status is of.
func (s Status) subject() string {
	if s.Object == nil {
		return "the request"
	}
	return "request " + s.Object.Name
}

// because adds reason and message of the cluster as far as they are given.
func (s Status) because() string {
	out := ""
	for _, t := range []string{s.Reason, s.Message} {
		if t != "" {
			out += ": " + Brief(t)
		}
	}
	return out
}

// DeniedError: the request was denied, for good.
type DeniedError struct {
	// Status is the last one seen.
	Status Status
}

func (e *DeniedError) Error() string { return e.Status.subject() + " was denied" + e.Status.because() }

// Hint says that only a new request helps.
func (e *DeniedError) Hint() string {
	return "a denial is final: settle it with the approver, then file a new request (the key can stay)"
}

// FailedError: the request was approved, but the signer refused it, for good.
type FailedError struct {
	// Status is the last one seen.
	Status Status
}

func (e *FailedError) Error() string {
	return e.Status.subject() + " was not signed" + e.Status.because()
}

// Hint says what the signer is likely to want.
func (e *FailedError) Hint() string {
	if e.Status.Reason == "SignerValidationFailure" && e.Status.Object != nil &&
		e.Status.Object.Spec.SignerName == ClientSigner {
		return `the signer accepts the usages "client auth", "digital signature" and, for RSA keys, ` +
			`"key encipherment"; file a new request`
	}
	return "this request cannot be revived: ask the cluster's admin about the signer, then file a new one"
}

// DeletedError: the request is gone without a certificate having been seen.
type DeletedError struct {
	// Status is the last one seen.
	Status Status
	// Recreated: another request now has the name.
	Recreated bool
}

func (e *DeletedError) Error() string {
	s := e.Status.subject() + " was deleted"
	if e.Status.Object != nil {
		s += fmt.Sprintf(" (last seen %s)", e.Status.State)
	}
	if e.Recreated {
		s += ", and another request has its name now"
	}
	return s
}

// Hint tells of the cleaner, which deletes on schedule.
func (e *DeletedError) Hint() string {
	return "clusters delete requests that stay undecided for 24 hours, and ended ones after 1 hour; file a new " +
		"request (the key can stay)"
}
