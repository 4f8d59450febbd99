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
	"os"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTransient(t *testing.T) {
	status := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "a", "", 0, true)
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("the card was pulled"), false},
		{status(http.StatusServiceUnavailable), true},
		{status(http.StatusInternalServerError), true},
		{status(http.StatusTooManyRequests), true},
		{status(http.StatusGatewayTimeout), true},
		{status(http.StatusForbidden), false},
		{status(http.StatusUnauthorized), false},
		{status(http.StatusNotFound), false},
		{io.ErrUnexpectedEOF, true},
		{syscall.ECONNRESET, true},
		{context.DeadlineExceeded, true},
		{context.Canceled, false},
		{os.ErrDeadlineExceeded, true},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		{&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, true},
		{&net.OpError{Op: "read", Err: syscall.EHOSTUNREACH}, true},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, false},
		{&net.OpError{Op: "local error", Err: errors.New("tls: internal error")}, false},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false},
	} {
		if got := transient(tt.err); got != tt.want {
			t.Errorf("%v: got %v", tt.err, got)
		}
		if tt.err == nil {
			continue
		}
		wrapped := fmt.Errorf("call: %w", &url.Error{Op: "Get", URL: "https://a", Err: tt.err})
		if got := transient(wrapped); got != tt.want {
			t.Errorf("%v, wrapped: got %v", tt.err, got)
		}
	}
}
