package csr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What went wrong with a call to the cluster; test with errors.Is. Refusals by
// RBAC are a *ForbiddenError, clashes with another writer a *ConflictError.
var (
	// ErrNotFound: no request of that name exists.
	ErrNotFound = errors.New("not found")
	// ErrExists: another request of that name exists.
	ErrExists = errors.New("already exists")
	// ErrUnauthorized: the cluster does not accept the credential (401), or it
	// could not be obtained.
	ErrUnauthorized = errors.New("credential not accepted")
	// ErrRefused: the cluster understood and will not do it: validation or
	// admission, as opposed to missing rights.
	ErrRefused = errors.New("refused by the cluster")
	// ErrWithheld: kubehsm's bridge did not let it pass: nobody agreed to it, say.
	ErrWithheld = errors.New("not sent to the cluster")
	// ErrUnreachable: no answer from the API server.
	ErrUnreachable = errors.New("cannot reach the API server")
	// ErrNotServed: the server does not know the API used.
	ErrNotServed = errors.New("not served by this cluster")
	// ErrExpired: a list or watch took too long and must be started again (410).
	ErrExpired = errors.New("expired, start again")
)

// Error is a failed call. It unwraps to one of the sentinels above and to the
// cause as client-go gave it.
type Error struct {
	// Op says what was tried: "create request jane-1".
	Op string
	// Kind is one of this package's sentinels.
	Kind error
	// Err is the cause.
	Err error

	detail string
	hint   string
}

func (e *Error) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Kind)
	}
	return fmt.Sprintf("%s: %v: %s", e.Op, e.Kind, e.detail)
}

// Unwrap gives the sentinel and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// Hint says what to do about it; the cause's own hint comes first.
func (e *Error) Hint() string {
	var inner interface{ Hint() string }
	if errors.As(e.Err, &inner) {
		return inner.Hint()
	}
	return e.hint
}

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

// apiError turns what client-go returned for op into an error of this package.
// RBAC refusals are turned further by the callers, who know what was needed.
func apiError(op, host string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", op, err)
	}
	e := &Error{Op: op, Err: err, detail: cause(err)}
	switch {
	case isObjectNotFound(err):
		e.Kind, e.detail = ErrNotFound, ""
		e.hint = "clusters delete requests that stay undecided for 24 hours, and ended ones after 1 hour"
	case isTextNotFound(err):
		e.Kind, e.hint = ErrNotServed, "the answer from "+host+" is not the Kubernetes API's: check the server address"
	case apierrors.IsNotFound(err):
		e.Kind, e.hint = ErrNotServed, "the cluster must serve certificates.k8s.io/v1 (Kubernetes 1.19 or later)"
	case apierrors.IsAlreadyExists(err):
		e.Kind, e.detail = ErrExists, ""
		e.hint = "choose another name, or delete the old request first"
	case fromBridge(err) != "":
		e.Kind, e.detail = ErrWithheld, fromBridge(err)
	case apierrors.IsUnauthorized(err):
		e.Kind = ErrUnauthorized
		e.hint = "the certificate or token used for " + host + " is unknown to it or has expired"
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		e.Kind = ErrExpired
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsMethodNotSupported(err):
		e.Kind = ErrRefused
	case isStatus(err):
		return fmt.Errorf("%s: %w", op, err)
	case strings.Contains(err.Error(), "getting credentials: "):
		// client-go's exec plugin wraps with this text only; there is no type to ask for.
		e.Kind, e.hint = ErrUnauthorized, "the kubeconfig's exec plugin failed; run its command by hand"
	default:
		return Unreachable(op, host, err)
	}
	return e
}

// Unreachable is an [ErrUnreachable] with what to look at, where err, which op
// failed with, is the network's; any other err is as it was. It is for clients
// of other resources of the same API server, at host.
func Unreachable(op, host string, err error) error {
	if !isNetwork(err) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &Error{Op: op, Kind: ErrUnreachable, Err: err, detail: cause(err), hint: networkHint(host, err)}
}

// fromBridge is what kubehsm's own bridge said, in place of the cluster, as it
// refused a request (401 and 403); "" if err is anything else.
func fromBridge(err error) string {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || s.Status().Code != http.StatusUnauthorized && s.Status().Code != http.StatusForbidden {
		return ""
	}
	words, _ := strings.CutPrefix(s.Status().Message, "kubehsm: ")
	if words == s.Status().Message {
		return ""
	}
	return words
}

// cause is the text of err without what client-go and the "Get \"https://…\":" put
// in front.
func cause(err error) string {
	var u *url.Error
	switch {
	case errors.As(err, &u):
		return u.Err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended in the middle of its answer"
	}
	return err.Error()
}

func isStatus(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s)
}

func statusDetails(err error) metav1.StatusDetails {
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Details != nil {
		return *s.Status().Details
	}
	return metav1.StatusDetails{}
}

// isTextNotFound reports a 404 that did not come as a Status object: a proxy's,
// a wrong address, or an API server that has not installed the group yet. It
// says nothing about whether the object exists.
func isTextNotFound(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	for _, c := range statusDetails(err).Causes {
		if c.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

func isNetwork(err error) bool {
	var u *url.Error
	var n net.Error
	return errors.As(err, &u) || errors.As(err, &n) || errors.Is(err, io.ErrUnexpectedEOF)
}

func networkHint(host string, err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		cert      *tls.CertificateVerificationError
		alert     tls.AlertError
		dns       *net.DNSError
	)
	switch {
	case errors.As(err, &authority):
		return "the certificate authority in the kubeconfig is not the one of " + host
	case errors.As(err, &name):
		return "the server's certificate is for other names than " + host
	case errors.As(err, &cert):
		return "the server's certificate did not verify"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return "the server ended the TLS handshake: it does not accept the client certificate"
	case errors.As(err, &dns):
		return "the name of " + host + " does not resolve: check the address, the network and the VPN"
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	default:
		return "is " + host + " up, and reachable from here?"
	}
}
