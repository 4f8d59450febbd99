package agent

import (
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// protocolVersion is the protocol's.
const protocolVersion = wire.Version

// The operations.
const (
	opPrepare = "prepare"
	opUnlock  = "unlock"
	opStatus  = "status"
	opLock    = "lock"
	opStop    = "stop"
	opHello   = "hello"
	opRetire  = "retire" // stop, unless something is open
	opFront   = "front"  // offer a person who can be asked
	opAttend  = "attend" // the same for one client's requests

	opCredential = wire.OpCredential
	opSign       = wire.OpSign
)

// request is what a client sends.
type request struct {
	V          int           `json:"v"`
	Op         string        `json:"op"`
	Enrollment string        `json:"enrollment,omitempty"`
	Client     bridge.Client `json:"client,omitzero"`
	Purpose    hsm.Purpose   `json:"purpose,omitzero"`
	Program    wire.Build    `json:"program,omitzero"`   // the client's, in a hello or a credential
	ExecInfo   string        `json:"execInfo,omitempty"` // of a credential
	Beats      bool          `json:"beats,omitempty"`    // signs of life are understood
	Token      *tokenRequest `json:"token,omitempty"`    // of an agent to its worker
	Sign       *wire.Sign    `json:"sign,omitempty"`     // of a sign
	Waits      bool          `json:"waits,omitempty"`    // prompts that say why it waits are understood

	kin []process.ID // the processes that started Client, see identify
}

// reply is what the agent sends: one of its fields is set.
type reply struct {
	Prompt  *prompt      `json:"prompt,omitempty"`
	Done    int          `json:"done,omitempty"`    // the prompt of that id is over
	Offered bool         `json:"offered,omitempty"` // the person can be asked from now on
	Session *Session     `json:"session,omitempty"`
	Status  *Status      `json:"status,omitempty"`
	Hello   *hello       `json:"hello,omitempty"`
	Token   *tokenReply  `json:"token,omitempty"` // a worker's token
	Signed  *wire.Signed `json:"signed,omitempty"`
	Beat    bool         `json:"beat,omitempty"`  // a sign of life
	Ended   []hsm.URI    `json:"ended,omitempty"` // the answer to a lock, see [Ended]
	// Shared, in a sign of life: from now on others may write where prompts are shown.
	Shared bool     `json:"shared,omitempty"`
	OK     bool     `json:"ok,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

// prompt asks the person at the client.
type prompt struct {
	ID      int                `json:"id"` // from 1
	PIN     *hsm.PINPrompt     `json:"pin,omitempty"`
	Touch   *hsm.TouchPrompt   `json:"touch,omitempty"`
	Confirm *hsm.ConfirmPrompt `json:"confirm,omitempty"`
	// Wait says why the client waits.
	Wait *wire.Wait `json:"wait,omitempty"`
	// Reach asks whether a touch would be seen.
	Reach bool `json:"reach,omitempty"`
	// Raw says that the client waits with its terminal in raw mode, see [HoldsTerminal].
	Raw bool `json:"raw,omitempty"`
	// Shared says that others may write to the client's terminal, see [hsm.WithShared].
	Shared bool `json:"shared,omitempty"`
}

// answer is the client's.
type answer struct {
	ID     int      `json:"id"`
	Yes    bool     `json:"yes,omitempty"`
	Secret bool     `json:"secret,omitempty"` // a secret frame follows
	Error  *failure `json:"error,omitempty"`
}

// Session is what a client needs to reach one enrolment through the bridge.
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
	// client yet, see [Client.Attend].
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
	// Supervised tells whether a service manager started it, see [Options].
	Supervised bool `json:"supervised,omitempty"`
	// Bridge is the address it listens on; BridgeError why it does not.
	Bridge      string `json:"bridge,omitempty"`
	BridgeError string `json:"bridgeError,omitempty"`
	// AuditError says why the audit log could not be written.
	AuditError string `json:"auditError,omitempty"`
	// Signatures and Dials count since the start, over all upstreams.
	Signatures uint64 `json:"signatures"`
	Dials      uint64 `json:"dials"`
	// Memory is the process's resident set in bytes, 0 where it is unknown.
	Memory uint64 `json:"memory,omitempty"`
	// Workers are the processes that hold tokens.
	Workers   []WorkerStatus          `json:"workers"`
	Tokens    []TokenStatus           `json:"tokens"`
	Upstreams []bridge.UpstreamStatus `json:"upstreams"`
	Sessions  []bridge.SessionStatus  `json:"sessions"`
	// Consents are the questions that wait for an answer; Fronts counts the open
	// UIs that can ask one.
	Consents []ConsentStatus `json:"consents"`
	Fronts   int             `json:"fronts,omitempty"`
}

// WorkerStatus describes a process that holds a token.
type WorkerStatus struct {
	PID   int     `json:"pid"`
	Token hsm.URI `json:"token"`
	// Memory is its resident set in bytes, 0 where it is unknown.
	Memory uint64 `json:"memory,omitempty"`
}

// TokenStatus describes a token that the agent holds.
type TokenStatus struct {
	URI      hsm.URI `json:"uri"`
	Unlocked bool    `json:"unlocked"`
	// Since is when it was unlocked, Until when it will be locked, and what it has
	// signed closed, if not used. A token whose worker ended is locked before that.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}
