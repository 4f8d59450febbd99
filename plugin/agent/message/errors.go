package message

import (
	"errors"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// The agent's errors, beside those of hsm, enrollment and bridge.
var (
	// ErrStopped says that the agent ended while it was asked.
	ErrStopped = errors.New("the agent has ended")
	// ErrVersion says that client and agent speak different protocols.
	ErrVersion = errors.New("the running agent is of another version")
	// ErrInUse says that the agent does not give way now: something is open.
	ErrInUse = errors.New("the agent is in use")
	// ErrCertificateExpired says that the enrollment's certificate is not in date.
	ErrCertificateExpired = errors.New("the certificate is not valid now")
	// ErrNotClient says that the session is not the client's that asks for it.
	ErrNotClient = errors.New("no session for another program")
	// ErrRejected says that the API server does not accept the certificate.
	ErrRejected = errors.New("the API server does not accept the certificate")
)

// ErrLocked is the cause that ends what runs while the agent is locked.
var ErrLocked = hint.With(errors.New("the agent was locked meanwhile"), "run the command again")

// VersionHint is the hint of [ErrVersion].
const VersionHint = "end it with `kubehsm agent stop`, which cuts what is open; the next command starts the new one"

// Codes name the sentinels that clients are told of.
func Codes() link.Codes {
	return link.Codes{
		"stopped":             ErrStopped,
		"version":             ErrVersion,
		"in-use":              ErrInUse,
		"locked":              ErrLocked,
		"certificate-expired": ErrCertificateExpired,
		"rejected":            ErrRejected,
		"not-client":          ErrNotClient,
		"gone":                ask.ErrGone,
		"unreachable":         upstream.ErrUnreachable,
		"port-taken":          loopback.ErrPortTaken,
		"unknown-enrollment":  enrollment.ErrUnknown,
		"invalid-enrollment":  enrollment.ErrInvalid,
		"unsigned":            enrollment.ErrUnsigned,
	}
}
