package enroll

import (
	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Review is what an enrollment would do, to be looked at before it is done.
type Review struct {
	Options enrolling.Options
	// Token is the token found.
	Token hsm.TokenInfo
	// Server is the API server's URL.
	Server string
	// Resumes lists the steps that an earlier run has done already.
	Resumes []enrolling.Step
	// Certificate is the one on the token that the enrollment signs in with; nil if it asks for one.
	Certificate *csr.Certificate
	// Approved: the request that an earlier run has filed is approved.
	Approved bool
	// Forecast says what is likely to become of the request; nil if there is one
	// already, or if the cluster cannot be asked.
	Forecast []csr.Point
	// Notes are clauses worth knowing ("the user may not approve its own request").
	Notes []string
	// Refused is why the enrollment would stop at once ([ErrDefaultSecrets], a key that the
	// token does not make), nil if it would not.
	Refused error
	// Replaces are the default secrets of the token that get replaced on the way.
	Replaces []hsm.PINKind
	// Commands are the equivalent commands, one a line.
	Commands []string
	// KubeconfigFile is the file that would be written; KubeconfigDiff the
	// unified diff, secrets redacted.
	KubeconfigFile string
	KubeconfigDiff string
}
