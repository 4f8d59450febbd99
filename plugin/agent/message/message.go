package message

import (
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// The operations.
const (
	OpPrepare = "prepare"
	OpUnlock  = "unlock"
	OpStatus  = "status"
	OpLock    = "lock"
	OpStop    = "stop"
	OpHello   = "hello"
	OpRetire  = "retire" // stop, unless something is open
	OpRespond = "front"  // offer a responder; programs of other versions know it by this word
	OpAttend  = "attend" // the same for one client's requests
	OpBridge  = "bridge" // the connection leads to the bridge from now on
)

// PlainRequest is one that says no more than its operation.
type PlainRequest struct{ link.Header }

// HelloRequest introduces a client.
type HelloRequest struct {
	link.Header
	Program wire.Build `json:"program,omitzero"`
}

// HelloAnswer says who the agent is.
type HelloAnswer struct {
	link.OK
	Hello *Hello `json:"hello,omitempty"`
}

// Hello is the agent's answer to a client's: who it is, and what would be lost
// with it.
type Hello struct {
	Protocol   int        `json:"protocol"`
	Program    wire.Build `json:"program"`
	Supervised bool       `json:"supervised,omitempty"`
	Unlocked   bool       `json:"unlocked,omitempty"`
	Beats      bool       `json:"beats,omitempty"` // the agent gives signs of life
}

// SessionRequest asks for a session of an enrollment or, with the operation unlock, for its
// token to be unlocked.
type SessionRequest struct {
	link.Header
	Enrollment string `json:"enrollment,omitempty"`
	// Own wants it for the program that asks, and not for the one that has started that.
	Own     bool        `json:"own,omitempty"`
	Purpose hsm.Purpose `json:"purpose,omitzero"`
	// Token is the token to unlock where there may be no such enrollment yet.
	Token hsm.URI `json:"token,omitzero"`
	// Authorities are those that the client verifies the bridge with, as PEM, where it says so.
	Authorities []byte `json:"authorities,omitempty"`
	// Look wants a session only if that takes no PIN, touch or yes: [hsm.ErrPINRequired] if it does.
	Look bool `json:"look,omitempty"`
	// Given says of an unlock that a source gives the client the PIN: nobody is asked for it.
	Given bool `json:"given,omitempty"`
}

// SessionAnswer hands a session out.
type SessionAnswer struct {
	link.OK
	Session *Session `json:"session,omitempty"`
}

// StatusRequest asks how the agent is.
type StatusRequest struct {
	link.Header
	// Recent takes what a token said last for its state where it does not answer at once. An
	// older agent waits for the answer.
	Recent bool `json:"recent,omitempty"`
}

// StatusAnswer describes the agent.
type StatusAnswer struct {
	link.OK
	Status *Status `json:"status,omitempty"`
}

// LockAnswer is the answer to a lock, see client.Ended.
type LockAnswer struct {
	link.OK
	Ended []hsm.URI `json:"ended,omitempty"`
}

// AttendRequest offers whoever can be asked for one client's requests.
type AttendRequest struct {
	link.Header
	Client process.ID `json:"client,omitzero"`
}

// SignRequest wants a signature.
type SignRequest struct {
	link.Header
	Purpose hsm.Purpose `json:"purpose,omitzero"`
	Sign    *wire.Sign  `json:"sign,omitempty"`
}

// SignAnswer is the signature.
type SignAnswer struct {
	link.OK
	Signed *wire.Signed `json:"signed,omitempty"`
}

// Session is what a client needs to reach one enrollment through the bridge.
type Session struct {
	// Certificate and Key are PEM: a loopback credential, worthless elsewhere.
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
	// Expires is when the client should ask again (KEP-541 expirationTimestamp).
	// The certificate stays the same then, while the agent lives.
	Expires time.Time `json:"expires"`
	// CertificateExpires is when the hardware key's certificate does.
	CertificateExpires time.Time `json:"certificateExpires"`
	// Attend says that requests may need the user's consent and nobody attends the
	// client yet, see client.Client.Attend.
	Attend bool `json:"attend,omitempty"`
}

// Status describes the agent.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Program is the file that the agent was started from. Newer is another one,
	// which has asked for the agent and will replace it once nothing is open.
	Program wire.Build  `json:"program"`
	Newer   *wire.Build `json:"newer,omitempty"`
	// Supervised tells whether a service manager started it, see host.Options.
	Supervised bool `json:"supervised,omitempty"`
	// Bridge is the address it listens on; BridgeError why it does not.
	Bridge      string `json:"bridge,omitempty"`
	BridgeError string `json:"bridgeError,omitempty"`
	// LocksOn are the ways of leaving the computer that lock all tokens.
	LocksOn []LockOnStatus `json:"locksOn,omitempty"`
	// AuditError says why the audit log could not be written.
	AuditError string `json:"auditError,omitempty"`
	// Signatures and Dials count since the start, over all upstreams.
	Signatures uint64 `json:"signatures"`
	Dials      uint64 `json:"dials"`
	// Memory is the process's resident set in bytes, 0 where it is unknown.
	Memory uint64 `json:"memory,omitempty"`
	// Workers are the processes that hold tokens.
	Workers   []worker.Status        `json:"workers"`
	Tokens    []TokenStatus          `json:"tokens"`
	Upstreams []upstream.Status      `json:"upstreams"`
	Sessions  []bridge.SessionStatus `json:"sessions"`
	// OtherSessions sums up the sessions that are not in Sessions.
	OtherSessions bridge.OtherSessions `json:"otherSessions,omitzero"`
	// Consents are the questions that wait for an answer; Responders counts the open
	// UIs that can ask one.
	Consents   []ConsentStatus `json:"consents"`
	Responders int             `json:"fronts,omitempty"`
	// Renewals are those that the agent has begun by itself and not finished.
	Renewals []RenewalStatus `json:"renewals,omitempty"`
	// Unfollowed are the enrollments in use whose clusters announce what nobody has accepted yet.
	Unfollowed []FollowStatus `json:"unfollowed,omitempty"`
	// NeverFollows says that the configuration has the agent look at no cluster.
	NeverFollows bool `json:"neverFollows,omitempty"`
}

// FollowStatus says what a cluster announces. Problem is untrusted text.
type FollowStatus struct {
	Enrollment string `json:"enrollment"`
	Problem    string `json:"problem"`
}

// RenewalStatus describes the renewal of the certificate of an enrollment that is in use.
type RenewalStatus struct {
	Enrollment string `json:"enrollment"`
	// Request is the one that waits for its approval or its certificate since Made, "" if none does.
	Request string    `json:"request,omitempty"`
	Made    time.Time `json:"made,omitzero"`
	// Failure says why the last attempt came to nothing, and Failed when that was.
	Failure string    `json:"failure,omitempty"`
	Failed  time.Time `json:"failed,omitzero"`
}

// TokenStatus describes a token that the agent holds.
type TokenStatus struct {
	URI      hsm.URI `json:"uri"`
	Unlocked bool    `json:"unlocked"`
	// Since is when it was unlocked, Until when it will be locked at the latest, and what it
	// has signed closed, if not used. A token that was lost is locked before that.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Problem is why the token could not be asked how it is.
	Problem string `json:"problem,omitempty"`
	// LockedBy is why it was locked last, and LockedAt when, if it is not unlocked now: a
	// reason of [WhyLocked].
	LockedBy string    `json:"lockedBy,omitempty"`
	LockedAt time.Time `json:"lockedAt,omitzero"`
	// Asked are the questions about it that wait for an answer, wherever they are asked.
	Asked []ask.Wait `json:"asked,omitempty"`
}

// LockOnStatus is a way of leaving the computer that locks all tokens.
type LockOnStatus struct {
	Reason string `json:"reason"` // see [WhyLocked]
	// Problem says why the agent cannot tell of it at present.
	Problem string `json:"problem,omitempty"`
}

// Urgent tells whether an operation is to be in force within two seconds, whatever
// has become of the agent: a client that misses a sign of life ends it.
func Urgent(op string) bool { return op == OpLock || op == OpStop }

// ConsentStatus is a question that waits for its answer.
type ConsentStatus struct {
	Enrollment string     `json:"enrollment"`
	Client     process.ID `json:"client"`
	// Request is what the client wants to do, in words.
	Request string    `json:"request"`
	Since   time.Time `json:"since"`
	// Fields are the whole question.
	Fields []hsm.Field `json:"fields,omitempty"`
}
