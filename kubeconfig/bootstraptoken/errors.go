package bootstraptoken

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// What went wrong with a record or a call; test with errors.Is.
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
	// ErrUnauthorized: the cluster does not accept the credential (401).
	ErrUnauthorized = errors.New("credential not accepted")
	// ErrUnreachable: no answer from the API server.
	ErrUnreachable = errors.New("cannot reach the API server")
)

// fromBridge tells whether kubehsm's own bridge has refused the call, in words that
// say why: rights and credentials have nothing to do with it.
func fromBridge(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && strings.HasPrefix(s.Status().Message, "kubehsm: ")
}

// apiError turns what client-go returned for op, which needed verb on Secrets,
// into an error of this package.
func apiError(op, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	case apierrors.IsNotFound(err):
		return hint.Withf(fmt.Errorf("%s: %w", op, ErrNotFound), "expired tokens are deleted by the cluster; list those that are left")
	case apierrors.IsAlreadyExists(err):
		return hint.Withf(fmt.Errorf("%s: %w", op, ErrExists), "delete the old one first, or let a new token be generated")
	case fromBridge(err):
		return fmt.Errorf("%s: not sent to the cluster: %w", op, err)
	case apierrors.IsForbidden(err):
		return hint.Withf(fmt.Errorf("%s: %w: %w", op, ErrForbidden, err),
			"it needs the verb %q on secrets in the namespace %s; whoever has that can read every secret there", verb, Namespace)
	case apierrors.IsUnauthorized(err):
		return hint.Withf(fmt.Errorf("%s: %w: %w", op, ErrUnauthorized, err), "the certificate or token used is unknown to the cluster or has expired")
	}
	var u *url.Error
	switch {
	case errors.As(err, &u):
		err = u.Err
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = io.ErrUnexpectedEOF // without client-go's words
	}
	if u != nil || err == io.ErrUnexpectedEOF {
		return hint.Withf(fmt.Errorf("%s: %w: %w", op, ErrUnreachable, err), "check the address in the kubeconfig, the network and the VPN")
	}
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Code == http.StatusTooManyRequests {
		return hint.Withf(fmt.Errorf("%s: %w", op, err), "the API server is overloaded: try again in a moment")
	}
	return fmt.Errorf("%s: %w", op, err)
}

// MayHaveArrived tells whether the cluster may have done what a call failed at:
// the answer was lost. One that it refused, or that could not be sent, it has not.
func MayHaveArrived(err error) bool {
	var answer apierrors.APIStatus
	var dial *net.OpError
	var trust *tls.CertificateVerificationError
	switch {
	case err == nil, errors.Is(err, ErrInvalid), errors.Is(err, ErrExists), errors.Is(err, ErrNotFound), errors.As(err, &trust):
		return false
	case errors.As(err, &answer):
		return answer.Status().Code >= http.StatusInternalServerError
	case errors.As(err, &dial):
		return dial.Op != "dial"
	}
	return true
}
