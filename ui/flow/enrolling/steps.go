package enrolling

import "slices"

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
	steps := Steps()
	if o.Join != nil && o.Renewal == nil { // a renewal knows its cluster
		steps = JoinSteps()
	}
	if o.Adopt { // the certificate is there
		steps = slices.DeleteFunc(steps, func(s Step) bool { return s == StepRequest || s == StepApproval })
	}
	return steps
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
