package bootstraptoken

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// What went wrong with a record or a call, beside what [apierror] tells of any call;
// test with errors.Is.
var (
	// ErrInvalid: the terms of a token are not acceptable.
	ErrInvalid = errors.New("unusable bootstrap token terms")
	// ErrNotToken: a Secret is no bootstrap token, or a broken one.
	ErrNotToken = errors.New("not a usable bootstrap token secret")
	// ErrNotFound: the cluster has no token of that ID.
	ErrNotFound = errors.New("no such bootstrap token")
	// ErrExists: the cluster has a token of that ID already.
	ErrExists = errors.New("a bootstrap token of this ID exists already")
	// ErrForbidden: RBAC does not allow the call.
	ErrForbidden = errors.New("not allowed")
)

// apiError turns what client-go returned for op, which needed verb on Secrets,
// into an error that says what it means for a bootstrap token.
func (c *Client) apiError(op, verb string, err error) error {
	var s apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return hint.Withf(fmt.Errorf("%s: %w", op, ErrNotFound),
			"expired tokens are deleted by the cluster; list those that are left")
	case apierrors.IsAlreadyExists(err):
		return hint.Withf(fmt.Errorf("%s: %w", op, ErrExists), "delete the old one first, or let a new token be generated")
	case apierrors.IsForbidden(err) && apierror.Withheld(err) == "" && !apierror.Admission(err):
		return hint.Withf(fmt.Errorf("%s: %w: %w", op, ErrForbidden, err),
			"it needs the verb %q on secrets in the namespace %s; whoever has that can read every secret there", verb, Namespace)
	case errors.As(err, &s) && s.Status().Code == http.StatusTooManyRequests:
		return hint.Withf(fmt.Errorf("%s: %w", op, err), "the API server is overloaded: try again in a moment")
	}
	return apierror.Of(op, c.host, err)
}

// MayHaveArrived tells whether the cluster may have done what a call failed at:
// the answer was lost. One that it refused, or that could not be sent, it has not.
func MayHaveArrived(err error) bool {
	var answer apierrors.APIStatus
	var dial *net.OpError
	var trust *tls.CertificateVerificationError
	switch {
	case err == nil, errors.Is(err, ErrInvalid), errors.Is(err, ErrExists), errors.Is(err, ErrNotFound),
		errors.As(err, &trust):
		return false
	case errors.As(err, &answer):
		return answer.Status().Code >= http.StatusInternalServerError
	case errors.As(err, &dial):
		return dial.Op != "dial"
	}
	return true
}
