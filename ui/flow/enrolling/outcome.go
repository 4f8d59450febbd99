package enrolling

import (
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// StepState is how far a step is.
type StepState string

// The states of a step.
const (
	StepPending StepState = "pending"
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepReused  StepState = "reused" // the step was done before
	StepFailed  StepState = "failed"
)

// Event is progress of an enrollment. Message is raw: clean it before printing.
type Event struct {
	Step    Step      `json:"step"`
	State   StepState `json:"state"`
	Message string    `json:"message,omitempty"`
	// Err is set when State is [StepFailed].
	Err error `json:"-"`
	// Approval is what to send to who approves, while somebody has to; nil otherwise.
	Approval *Approval `json:"approval,omitempty"`
}

// Approval is what a person who approves a request needs to know of it.
type Approval struct {
	Request string `json:"request"` // the request's name
	// Command approves it.
	Command string `json:"command"`
	// Ticket: the request was filed with a ticket, which Command compares it with.
	Ticket bool `json:"ticket,omitempty"`
	// Words are those of the key's fingerprint, to be read out.
	Words string `json:"words,omitempty"`
}

// Result is a finished enrollment.
type Result struct {
	Name        string    `json:"name"`
	Context     string    `json:"context"`
	Kubeconfig  string    `json:"kubeconfig"`
	Key         hsm.URI   `json:"key"`
	Fingerprint string    `json:"fingerprint"` // SHA-256 of the public key, hex
	Request     string    `json:"request"`     // the CertificateSigningRequest's name
	NotAfter    time.Time `json:"notAfter"`
	// User and Groups are what the API server says we are.
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Rights is false when the user may not do anything yet; Ask is then the
	// line to send to an admin.
	Rights bool   `json:"rights"`
	Ask    string `json:"ask,omitempty"`
	// PUK is a new PUK to show once; the UI zeroes it. Nil if there is none.
	PUK *hsm.Secret `json:"-"`
	// PUKUnsure: PUK may be in force, or the one before, as the change failed.
	PUKUnsure bool `json:"-"`
	// Warnings are sentences on what is left undone and has to be mended.
	Warnings []string `json:"warnings,omitempty"`
	// Notes are clauses worth knowing ("lifetime is shorter than asked").
	Notes []string `json:"notes,omitempty"`
	// Next are the commands to type next.
	Next []string `json:"next"`
}
