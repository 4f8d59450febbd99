package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// The agent's errors, beside those of hsm, enrollment and bridge.
var (
	// ErrNotRunning says that no agent answers on the socket.
	ErrNotRunning = errors.New("the agent is not running")
	// ErrStopped says that the agent went away while it was asked.
	ErrStopped = errors.New("the agent went away")
	// ErrNoAnswer says that the agent is there and gives no sign of life.
	ErrNoAnswer = fmt.Errorf("the agent does not answer: %w", os.ErrDeadlineExceeded)
	// ErrVersion says that client and agent speak different protocols.
	ErrVersion = errors.New("the running agent is of another version")
	// ErrInUse says that the agent does not give way now: something is open.
	ErrInUse = errors.New("the agent is in use")
	// ErrReplaced is how a supervised agent ends that gives way to a newer program:
	// its supervisor starts it again after an error.
	ErrReplaced = errors.New("a newer program takes over")
	// ErrCertificateExpired says that the enrolment's certificate is not in date.
	ErrCertificateExpired = errors.New("the certificate is not valid now")
	// ErrNotClient says that the session is not the client's that asks for it.
	ErrNotClient = errors.New("no session for another program")
	// ErrRejected says that the API server does not accept the certificate.
	ErrRejected = errors.New("the API server does not accept the certificate")
)

// errGone is the cause when a program goes away that waits for an answer.
var errGone = errors.New("the client went away")

// codes name the sentinels that clients are told of.
var codes = link.Codes{
	"stopped":             ErrStopped,
	"version":             ErrVersion,
	"in-use":              ErrInUse,
	"locked":              errLocked,
	"certificate-expired": ErrCertificateExpired,
	"rejected":            ErrRejected,
	"not-client":          ErrNotClient,
	"unreachable":         bridge.ErrUnreachable,
	"port-taken":          bridge.ErrPortTaken,
	"unknown-enrollment":  enrollment.ErrUnknown,
	"invalid-enrollment":  enrollment.ErrInvalid,
}
