package wire

import "github.com/kubehsm/kubehsm/plugin/process"

// Version goes up with every change that an older peer would misread.
const Version = 1

// OpCredential asks for a finished ExecCredential. The agent answers with it,
// in one frame of [KindSecret], if that needs nobody and nothing but what it
// has at hand; else with a JSON message, and the client has to prepare a session.
const OpCredential = "credential"

// Credential is the request of [OpCredential].
type Credential struct {
	V  int    `json:"v"`
	Op string `json:"op"`
	// Enrollment is what the arguments name, "" if they name none.
	Enrollment string `json:"enrollment,omitempty"`
	// ExecInfo is what the Kubernetes client asked, as it came (KEP-541), "" if it asked nothing.
	ExecInfo string `json:"execInfo"`
	// APIVersion is what the arguments name for a client that asked nothing.
	APIVersion string `json:"apiVersion,omitempty"`
	// Client is the program that will use the credential.
	Client process.ID `json:"client,omitzero"`
	// Program is the one that asks, whose path may lead over symbolic links: an
	// agent of another lets it ask in full.
	Program Build `json:"program"`
}
