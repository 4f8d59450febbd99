package csr

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
)

// What went wrong with a request in the cluster, beside what [apierror] tells of any
// call; test with errors.Is. Refusals by RBAC are a *ForbiddenError, clashes with
// another writer a *ConflictError.
var (
	// ErrNotFound: no request of that name exists.
	ErrNotFound = errors.New("not found")
	// ErrExists: another request of that name exists.
	ErrExists = errors.New("already exists")
	// ErrRefused: the cluster understood and will not do it: validation or
	// admission, as opposed to missing rights.
	ErrRefused = errors.New("refused by the cluster")
	// ErrNotServed: the server does not know the API used.
	ErrNotServed = errors.New("not served by this cluster")
	// ErrExpired: a list or watch took too long and must be started again (410).
	ErrExpired = errors.New("expired, start again")
)

// InputError is an argument that cannot be right, found before anything was
// signed or sent.
type InputError struct {
	// Field names the argument: "user", "group", "expiration".
	Field string
	// Problem says what is wrong with it.
	Problem string

	hint string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Argument is Field: by it package ui knows an error of the one who typed.
func (e *InputError) Argument() string { return e.Field }

// Hint says what would be right; it may be empty.
func (e *InputError) Hint() string { return e.hint }

// apiError turns what client-go returned for op into an error that says what it means
// for a request. RBAC refusals are turned further by the callers, who know what was
// needed.
func apiError(op, host string, err error) error {
	e := &apierror.Error{Op: op, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	case isObjectNotFound(err):
		e.Kind = ErrNotFound
		e.Advice = "clusters delete requests that stay undecided for 24 hours, and ended ones after 1 hour; " +
			"`kubehsm csr list` shows those there are"
		return e
	case apierrors.IsAlreadyExists(err):
		e.Kind, e.Advice = ErrExists, "choose another name, or delete the old request first"
		return e
	}
	e.Detail = apierror.Cause(err)
	switch {
	case apierror.NotServed(err):
		e.Kind, e.Advice = ErrNotServed, "the answer from "+host+" is not the Kubernetes API's: check the server address"
	case apierrors.IsNotFound(err):
		e.Kind, e.Advice = ErrNotServed, "the cluster must serve certificates.k8s.io/v1 (Kubernetes 1.19 or later)"
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		e.Kind = ErrExpired
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), IsForbidden(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsMethodNotSupported(err):
		e.Kind = ErrRefused
	default:
		return apierror.Of(op, host, err)
	}
	return e
}
