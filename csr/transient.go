package csr

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// transient reports an error that may go away by itself, so that trying again
// makes sense. A failed TLS handshake does not: it would ask the token for
// another signature, and the user for another touch, to no avail.
func transient(err error) bool {
	if err == nil {
		return false
	}
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		code := s.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests ||
			apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
	}
	var (
		alert  tls.AlertError
		verify *tls.CertificateVerificationError
		op     *net.OpError
		dns    *net.DNSError
		n      net.Error
	)
	switch {
	case errors.As(err, &alert), errors.As(err, &verify):
		return false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, context.DeadlineExceeded),
		utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	case errors.As(err, &dns):
		return true
	case errors.As(err, &op):
		// "remote error" and "local error" are TLS alerts.
		return op.Op == "dial" || op.Op == "read" || op.Op == "write"
	case errors.As(err, &n):
		return n.Timeout()
	}
	return false
}

// isObjectNotFound tells "there is no such request" from every other 404: a
// proxy's, or that of a server that does not serve the group (yet).
func isObjectNotFound(err error) bool {
	var s apierrors.APIStatus
	return apierrors.IsNotFound(err) && !apierror.NotServed(err) && errors.As(err, &s) &&
		s.Status().Details != nil && s.Status().Details.Name != ""
}
