// Package apierror says in words what a call to a Kubernetes API server failed with: the
// network, the credential, or kubehsm's own bridge. Clients add what only they know of
// the objects that they work with. Everybody may import it.
package apierror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a call failed with, whatever it was for; test with errors.Is.
var (
	// ErrUnauthorized: the cluster does not accept the credential (401), or it
	// could not be obtained.
	ErrUnauthorized = errors.New("credential not accepted")
	// ErrWithheld: kubehsm's bridge did not let it pass: nobody agreed to it, say.
	ErrWithheld = errors.New("not sent to the cluster")
	// ErrUnreachable: no answer from the API server.
	ErrUnreachable = errors.New("cannot reach the API server")
)

// Error is a failed call. It unwraps to its kind and to the cause as client-go gave it.
type Error struct {
	// Op says what was tried: "create request jane-1".
	Op string
	// Kind is one of the errors above, or one of the client's own.
	Kind error
	// Err is the cause.
	Err error
	// Detail is what there is to say of the cause; it may be empty.
	Detail string
	// Advice is the hint, unless the cause has one.
	Advice string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Kind)
	}
	return fmt.Sprintf("%s: %v: %s", e.Op, e.Kind, e.Detail)
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// Hint says what to do about it; the cause's own hint comes first.
func (e *Error) Hint() string {
	var inner interface{ Hint() string }
	if errors.As(e.Err, &inner) {
		return inner.Hint()
	}
	return e.Advice
}

// Of puts into words the error err with which op failed at the API server host. The result
// is an [*Error] where it is of one of this package's kinds, and else err with op before it.
func Of(op, host string, err error) error {
	switch withheld := Withheld(err); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
	case withheld != "":
		return &Error{Op: op, Kind: ErrWithheld, Err: err, Detail: withheld}
	case apierrors.IsUnauthorized(err):
		return &Error{Op: op, Kind: ErrUnauthorized, Err: err, Detail: Cause(err),
			Advice: "the certificate or token used for " + host +
				" is unknown to it or has expired: get a new one, or use another context"}
	case isStatus(err):
	case strings.Contains(err.Error(), "getting credentials: "):
		// client-go's exec plugin wraps with this text only; there is no type to ask for.
		return &Error{Op: op, Kind: ErrUnauthorized, Err: err, Detail: Cause(err),
			Advice: "the kubeconfig's exec plugin failed; run its command by hand"}
	case isNetwork(err):
		return &Error{Op: op, Kind: ErrUnreachable, Err: err, Detail: Cause(err), Advice: networkHint(host, err)}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Withheld returns the words of kubehsm's own bridge, if it refused a request (401 and 403)
// before the cluster saw it; "" if err is anything else.
func Withheld(err error) string {
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

// Admission reports whether the cluster refused what the caller has the right to do: an admission policy did, a
// webhook, or a quota.
func Admission(err error) bool {
	return apierrors.IsForbidden(err) && slices.ContainsFunc([]string{"ValidatingAdmissionPolicy '", "admission webhook ",
		"exceeded quota"}, func(by string) bool { return strings.Contains(err.Error(), by) })
}

// Said returns the error that the answer raw states, if raw is a Status of the API server,
// and else err, which the client made of that answer: a client without a scheme does not
// read a Status itself.
func Said(raw []byte, err error) error {
	var s metav1.Status
	if err == nil || json.Unmarshal(raw, &s) != nil || s.Kind != "Status" || s.Message == "" {
		return err
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// isStatus tells whether err is an answer of the API server.
func isStatus(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s)
}

// NotServed reports a 404 that did not come as a Status object: a proxy's,
// a wrong address, or an API server that has not installed the group yet. It
// says nothing about whether the object exists.
func NotServed(err error) bool {
	var s apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &s) || s.Status().Details == nil {
		return false
	}
	for _, c := range s.Status().Details.Causes {
		if c.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

// Cause is the text of err without what client-go and the "Get \"https://…\":" put
// in front.
func Cause(err error) string {
	var u *url.Error
	switch {
	case errors.As(err, &u):
		return u.Err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended in the middle of its answer"
	}
	return err.Error()
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
		return "the certificate authority (CA) in the kubeconfig is not " +
			"the one of " + host + ": ask who runs the cluster for its CA"
	case errors.As(err, &name):
		return "the server's certificate is for other names than " + host
	case errors.As(err, &cert):
		return "check the cluster's certificate authority (CA) in the kubeconfig, and this computer's clock"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return "the server ended the TLS handshake: it does not accept the client certificate"
	case errors.As(err, &dns):
		return "the name of " + host + " does not resolve: check the address, the network and the VPN"
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	default:
		return "check that " + host + " is up and reachable from here"
	}
}
