package upstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// The errors of an upstream.
var (
	// ErrUnreachable says that no connection to the API server could be made.
	ErrUnreachable = errors.New("cannot reach the API server")
	// ErrUnauthorized says that the API server answered 401, or refused the
	// certificate in the handshake.
	ErrUnauthorized = errors.New("the API server answered 401 Unauthorized")
	// ErrNotSigned says that the token made no signature while the API server waited.
	ErrNotSigned = errors.New("the token did not sign in time")
	// ErrClosed says that the upstream was closed, by a lock for example.
	ErrClosed = errors.New("the connection was closed by the agent")

	errNotResumed = errors.New("the API server did not resume the TLS session")
	errHTTP1      = errors.New("the API server speaks HTTP/1.1 only")
)

// Repeatable tells whether a directly connected client would repeat a reading request after
// err: the connection broke, as it does when an API server ends or a load balancer drops the
// connection. A failure to connect is not repeatable.
func Repeatable(method string, err error) bool {
	if method != http.MethodGet && method != http.MethodHead {
		return false
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, broken) {
			return true
		}
	}
	// The HTTP/2 library has no error values for these two messages.
	return strings.Contains(err.Error(), "http2: client connection lost") ||
		strings.Contains(err.Error(), "http2: server sent GOAWAY and closed the connection")
}
