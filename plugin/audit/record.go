package audit

import (
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// Event says what a record is about. Events are added, never renamed.
type Event string

// The events.
const (
	// AgentStart and AgentStop are the agent's life. Reason of a stop: "asked",
	// "idle", "signal", "replaced" (by a newer program), "unreachable" (its socket
	// was removed), "no-answer" (it was to lock or stop, did not answer and was killed).
	AgentStart Event = "agent-start"
	AgentStop  Event = "agent-stop"
	// Unlock is an attempt to unlock a token.
	Unlock Event = "unlock"
	// Lock is the end of what stood on a PIN. Reason: "asked", "idle" (the unlock
	// window was not used), "longest-time" (it has been open for long), "removed",
	// "disconnected" (a forwarded token's server was lost), "suspend", "screen-lock".
	Lock Event = "lock"
	// WorkerEnd is the end of a process that held a token and was not told to end. Reason:
	// "crash" or "no-answer" (it was killed). PIN says that it had been given a PIN for what it was at.
	WorkerEnd Event = "worker-end"
	// Signature is a use of the private key. Reason: "sign-in" (a client's plugin
	// waits for it), "reconnect" (a request needed a new connection) or
	// "external-signer" (a client that connects by itself), "record" (the record of a
	// spare, see [Policy]) or "renewal" (a request for the next certificate).
	Signature Event = "signature"
	// Session is a loopback credential for one client process. It is recorded when
	// it is first handed out, not each time the same one is given again.
	Session Event = "session"
	// Denial is a request that the bridge turned away. Code is the HTTP status,
	// Reason says why, see [bridge.Denial].
	Denial Event = "denial"
	// Consent is a person's answer about a request, or that there was none. Reason:
	// "answer" (typed or clicked), "pin" (typed for the signature), "touch", "nobody" (there was
	// nobody to ask). The key has signed Statement where the answer is yes. Requests that an
	// earlier answer covers have no record of their own.
	Consent Event = "consent"
	// Policy is a version of an enrollment's record that the agent found signed by its key, with
	// the consent policy. Reason: "first" (since the agent started), "changed" (it is later than
	// the one before).
	Policy Event = "policy"
	// Renewal is the end of an attempt of the agent's own to renew a certificate: it is in use, or
	// why it is not.
	Renewal Event = "renewal"
	// Follow is a cluster that announces another address or authority, which nobody has accepted
	// yet. Server is where the enrollment leads.
	Follow Event = "follow"
	// Lost says that somebody has removed the log while the agent wrote to it. What
	// was in it is gone.
	Lost Event = "log-lost"
)

// Outcome says how it ended.
type Outcome string

// The outcomes. Error has the reason for all but Granted.
const (
	Granted   Outcome = "granted"
	Refused   Outcome = "refused"   // by the token, the agent or the API server
	Cancelled Outcome = "cancelled" // the person declined, or the program that asked has ended
	Failed    Outcome = "failed"    // for a technical reason
)

// Record is one line. Field names are stable: fields are added, never renamed
// or removed; those without a value are left out.
type Record struct {
	// Time is when it was written, UTC, to the microsecond.
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`
	// Outcome is set for Unlock, Signature, Session, Consent, Renewal and Follow, and for a Lock
	// that a token did not answer.
	Outcome Outcome `json:"outcome,omitempty"`
	// Reason is a word from the event's own list.
	Reason string `json:"reason,omitempty"`
	// Error is the code of what went wrong, such as "pin-incorrect", "no-token" or
	// "unreachable"; "other" if it has none.
	Error string `json:"error,omitempty"`
	// Code is the HTTP status of a Denial.
	Code int `json:"code,omitempty"`
	// Count is how many equal records this one stands for; 0 is one. Denials and
	// failures are counted so when they repeat within a minute.
	Count int `json:"count,omitempty"`
	// Enrollment is the enrollment's name.
	Enrollment string `json:"enrollment,omitempty"`
	// Server is the API server's host, and port if its URL has one.
	Server string `json:"server,omitempty"`
	// Key is the fingerprint of the public key, SHA-256 of its DER, in hex.
	Key string `json:"key,omitempty"`
	// Token is the URI of the token.
	Token hsm.URI `json:"token,omitzero"`
	// PIN says of a WorkerEnd that the token may have counted a try.
	PIN bool `json:"pin,omitempty"`
	// Request is what a Consent was asked for, in words. Statement is the text
	// that was agreed to, see package consent, or the version of the record, see package
	// enrollment; Signature is the token's over it.
	Request   string `json:"request,omitempty"`
	Statement string `json:"statement,omitempty"`
	Signature []byte `json:"signature,omitempty"`
	// Policy is the consent policy, as [consent.Policy.String] writes it.
	Policy string `json:"policy,omitempty"`
	// Number is that of the version in Statement.
	Number uint64 `json:"number,omitempty"`
	// Client is the process for which it was done.
	Client *Process `json:"client,omitempty"`
	// Agent is the process id of the agent that wrote the record.
	Agent int `json:"agent,omitempty"`
	// Version is the agent's, in AgentStart.
	Version string `json:"version,omitempty"`
}

// Process is a client, the same user's. Of a session, and of what the bridge serves,
// the kernel has told the process, where it does; any other says itself who it is.
type Process struct {
	PID int `json:"pid,omitempty"`
	// Command is the program's name without folder and arguments.
	Command string `json:"command,omitempty"`
}
