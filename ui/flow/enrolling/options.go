package enrolling

import (
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Options say what to enroll. [Enroller.Complete] fills what is left open.
type Options struct {
	// Name is the enrollment's name, and that of the context, cluster and user
	// entries written. Default: the source context's name with "-hsm".
	Name string `json:"name"`

	// Token names the token. Key names an existing key on it; if it is the zero
	// URI a key is generated with Generate.
	Token    hsm.URI             `json:"token"`
	Key      hsm.URI             `json:"key,omitzero"`
	Generate hsm.GenerateOptions `json:"generate"`

	// Context is the kubeconfig context whose cluster is joined and whose
	// credential files the request. Default: the current context.
	Context string `json:"context"`
	// Cluster is the kubeconfig cluster joined in place of the context's.
	Cluster string `json:"cluster,omitempty"`
	// Join, if set, takes the cluster from discovery instead, and files the
	// request with a bootstrap token; Context is then "".
	Join *Join `json:"join,omitempty"`
	// Renewal, if set, asks for the successor of a certificate that is there.
	Renewal *Renewal `json:"renewal,omitempty"`
	// User and Groups are the identity asked for (CN and O).
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// SignerName signs the request. Default kubernetes.io/kube-apiserver-client.
	SignerName string `json:"signerName,omitempty"`
	// Expiration is the lifetime asked for, at least 10 min; 0 leaves it to the signer.
	Expiration time.Duration `json:"expiration,omitempty"`
	// Reason is shown to the approver.
	Reason string `json:"reason,omitempty"`
	// NoAttestation leaves the token's attestation of the key out of the
	// request, for signers that refuse extensions they do not know.
	NoAttestation bool `json:"noAttestation,omitempty"`
	// AcceptFactory enrolls a token whose PIN, PUK or management key is the
	// default one, which is [ErrFactorySecrets] otherwise.
	AcceptFactory bool `json:"acceptFactory,omitempty"`
	// AcceptForecast files also a request that is certain to be refused, which is
	// [ErrForecast] otherwise.
	AcceptForecast bool `json:"acceptForecast,omitempty"`
	// AcceptUnverified is the host, with its port as the address has it, of a
	// cluster that is enrolled although its context does not verify it; any other
	// is an [*cluster.UnverifiedError].
	AcceptUnverified string `json:"acceptUnverified,omitempty"`
	// AltNames are the subject alternative names to ask for. They, User and
	// Groups may hold placeholders: {login}, {host}, {serial}, {token}, {context}.
	AltNames AltNames `json:"altNames,omitzero"`
	// Labels are put on the request.
	Labels map[string]string `json:"labels,omitempty"`

	// ApproveWith is a kubeconfig file whose current context may approve the
	// request at once; "" waits for somebody to approve it.
	ApproveWith string `json:"approveWith,omitempty"`
	// KeepCurrent leaves kubeconfig's current-context as it is.
	KeepCurrent bool `json:"keepCurrent,omitempty"`
	// Replace allows a kubeconfig entry of the same name that is not kubehsm's to be replaced.
	Replace bool `json:"replace,omitempty"`
	// Restart forgets what an earlier run of the same name did.
	Restart bool `json:"-"`
	// Timeout bounds the wait for approval; 0 waits until cancelled.
	Timeout time.Duration `json:"-"`
}

// The risks that can be accepted of an enrollment, by their names on the command line.
const (
	RiskFactory  = "factory-secrets"
	RiskForecast = "forecast"
	// RiskUnverified is followed by the host.
	RiskUnverified = "unverified:"
)

// Risks are those that are accepted.
func (o Options) Risks() []string {
	var out []string
	if o.AcceptFactory {
		out = append(out, RiskFactory)
	}
	if o.AcceptForecast {
		out = append(out, RiskForecast)
	}
	if o.AcceptUnverified != "" {
		out = append(out, RiskUnverified+o.AcceptUnverified)
	}
	return out
}

// Step is one named step of an enrollment, in the order of [Steps].
type Step string

// The steps. Each is idempotent and recorded, so that an enrollment resumes.
const (
	StepDiscover    Step = "discover"    // find the cluster; only of a join
	StepToken       Step = "token"       // find the token
	StepKey         Step = "key"         // generate or find the key
	StepRequest     Step = "request"     // sign the PKCS#10 on the token and file it
	StepApproval    Step = "approval"    // wait for approval and issue
	StepCertificate Step = "certificate" // check, keep, write to the token
	StepVerify      Step = "verify"      // sign in through the bridge and ask who we are
	StepKubeconfig  Step = "kubeconfig"  // write the entries and make the context current
)

// Steps lists the steps of an enrollment from a context, in order.
func Steps() []Step {
	return []Step{StepToken, StepKey, StepRequest, StepApproval, StepCertificate, StepVerify, StepKubeconfig}
}

// JoinSteps lists the steps of an enrollment that joins a cluster.
func JoinSteps() []Step { return append([]Step{StepDiscover}, Steps()...) }

// Steps lists the steps of this enrollment.
func (o Options) Steps() []Step {
	if o.Join != nil {
		return JoinSteps()
	}
	return Steps()
}

// verb is the command that makes such an enrollment.
func (o Options) verb() string {
	if o.Join != nil {
		return "join"
	}
	return "enroll"
}

// Resume is the command that goes on with such an enrollment.
func (o Options) Resume() string {
	if o.Renewal == nil {
		return "kubehsm " + o.verb() + " --name " + o.Name
	}
	line := "kubehsm certificate renew " + o.Name
	if o.Renewal.OldKey.Scheme != "" {
		line += " --new-key"
	}
	if o.Renewal.With != "" {
		line += " --with " + shell.Quote(o.Renewal.With)
	}
	return line
}

// Title is the step in a few words, for people.
func (s Step) Title() string {
	switch s {
	case StepDiscover:
		return "find the cluster"
	case StepToken:
		return "find the token"
	case StepKey:
		return "key on the token"
	case StepRequest:
		return "file the request"
	case StepApproval:
		return "wait for approval"
	case StepCertificate:
		return "store the certificate"
	case StepKubeconfig:
		return "write the kubeconfig"
	case StepVerify:
		return "sign in with the token"
	}
	return string(s)
}

// Renewal marks the record of an enrollment that has a certificate and asks for
// its successor.
type Renewal struct {
	// With is the kubeconfig context that files the request; "" files it with the
	// certificate that is still valid.
	With string `json:"with,omitempty"`
	// OldKey is the key that a new one takes the place of.
	OldKey hsm.URI `json:"oldKey,omitzero"`
}
