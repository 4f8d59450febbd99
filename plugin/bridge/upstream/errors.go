package upstream

import "errors"

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

	errHTTP1 = errors.New("the API server speaks HTTP/1.1 only")
)
