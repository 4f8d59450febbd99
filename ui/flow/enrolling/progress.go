package enrolling

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Progress records how far an enrollment is, before and after each thing that
// cannot be repeated, so that it resumes after an unplugged token, a closed
// laptop or an approval that takes a day. It holds nothing secret.
type Progress struct {
	Options Options
	// Cluster is the API server's endpoint, and Namespace the one that commands
	// act on, both as read from the source context.
	Cluster   cluster.Cluster
	Namespace string
	// Generating is set before a key is generated, with the fingerprints of the
	// keys that were in its place then (Before): another one found there
	// afterwards is ours.
	Generating bool
	Before     []string
	// Request has the key once it exists. Its name and its PKCS#10 are recorded before
	// it is filed, its UID after.
	Request Request
	// Signed is what the key has signed of the enrollment's record, while it was open for the request.
	Signed enrollment.Signed
	// Reported is the UID of the last request whose denial, or refusal by the signer, a run
	// has reported.
	Reported string
	// Certificate is the issued chain, PEM, leaf first.
	Certificate []byte
	// Rejected: the API server did not accept Certificate.
	Rejected bool
	Done     []Step
	Updated  time.Time
}

// Did tells whether step s was finished.
func (j *Progress) Did(s Step) bool { return slices.Contains(j.Done, s) }

// Mark records that step s was finished.
func (j *Progress) Mark(s Step) {
	if !j.Did(s) {
		j.Done = append(j.Done, s)
	}
}

// Unmark forgets that s and all later steps were done.
func (j *Progress) Unmark(s Step) {
	steps := j.Options.Steps()
	from := slices.Index(steps, s)
	j.Done = slices.DeleteFunc(j.Done, func(d Step) bool { return slices.Index(steps, d) >= from })
}

// Next is the first step that is not done, "" if none is left.
func (j *Progress) Next() Step {
	for _, s := range j.Options.Steps() {
		if !j.Did(s) {
			return s
		}
	}
	return ""
}

// Repeatable tells whether all that was done so far can be done again without a trace: of such a
// renewal nothing has to be recorded.
func (j *Progress) Repeatable() bool {
	return j.Options.Renewal != nil && !j.Generating && j.Request.Name == "" && len(j.Certificate) == 0
}

// Makes tells whether a key is still to be made.
func (j *Progress) Makes() bool { return j.Request.KeyHash == "" && j.Options.Key.Scheme == "" }

// Finished tells whether nothing is left to do.
func (j *Progress) Finished() bool { return j.Did(StepVerify) && j.Did(StepKubeconfig) }

// Filed tells whether there is a request that a forecast would come too late for.
func (j *Progress) Filed() bool { return j.Request.UID != "" || len(j.Certificate) > 0 }

// ErrTokenNeeded: the bootstrap token, which is not recorded, must be given
// once more to go on.
var ErrTokenNeeded = errors.New("the bootstrap token or ticket is needed to go on")

// TokenNeeded is [ErrTokenNeeded] with how to give it.
func (j *Progress) TokenNeeded() error {
	return hint.Withf(ErrTokenNeeded,
		"give it again, or another if it has ended: `kubehsm join --name %s --ticket -` (or --token -); it is not kept "+
			"anywhere. "+
			"If you were sent the certificate: --certificate FILE", j.Options.Name)
}

// ExpiredToken explains a credential that was good when the run began.
func (j *Progress) ExpiredToken(err error) error {
	if j.Options.Join == nil || j.Options.Renewal != nil || !errors.Is(err, apierror.ErrUnauthorized) {
		return err
	}
	return hint.Withf(err,
		"the bootstrap token has expired or was deleted, as the help desk does once a request is approved or denied: "+
			"ask for the certificate and go on with `kubehsm join --name %s --certificate FILE`, or for another ticket",
		j.Options.Name)
}

// OtherFiler says who else could file the request of a renewal.
func (j *Progress) OtherFiler() string {
	if j.Options.Renewal == nil || j.Options.Renewal.With != "" || j.Options.Context == "" {
		return ""
	}
	return fmt.Sprintf("file it with the context that was enrolled from: `kubehsm certificate renew %s --with %s`",
		j.Options.Name, shell.Quote(j.Options.Context))
}

// Enrollment is the tuple that the agent may serve once there is a certificate.
func (j *Progress) Enrollment() enrollment.Enrollment {
	o := j.Options
	return enrollment.Enrollment{
		Name: o.Name, Cluster: j.Cluster, Namespace: j.Namespace, Key: j.Request.Key, KeyHash: j.Request.KeyHash,
		SpareOf: o.SpareOf, User: o.User, Groups: o.Groups, Issuer: j.issuer(), Policy: consent.Session,
		Context: o.Context, Created: time.Now().UTC().Truncate(time.Second),
	}
}

// issuer is who renews the certificate, "" if that is the cluster's signer.
func (j *Progress) issuer() string {
	c, err := csr.ParseCertificate(j.Certificate)
	if !j.Options.Adopt || err != nil {
		return ""
	}
	for rest := j.Cluster.CAData; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return c.Leaf.Issuer.String()
		}
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil && c.Leaf.CheckSignatureFrom(ca) == nil {
			return ""
		}
	}
}

// Prospect is the request as far as it is known before there is a key.
func (j *Progress) Prospect(accepted *csr.Accepted) csr.Prospect {
	p := j.Options.Prospect(j.Options.Token.Kind().Attests)
	p.Accepted = accepted
	return p
}

// progressFile is a record as it is written. What it says of its request stands beside
// the rest.
type progressFile struct {
	Options     Options           `json:"options"`
	Cluster     cluster.Cluster   `json:"cluster"`
	Namespace   string            `json:"namespace,omitempty"`
	Generating  bool              `json:"generating,omitempty"`
	Before      []string          `json:"before,omitempty"`
	Key         hsm.URI           `json:"key,omitzero"`
	KeyHash     string            `json:"keyHash,omitempty"`
	RequestName string            `json:"requestName,omitempty"`
	Request     []byte            `json:"request,omitempty"`
	RequestUID  string            `json:"requestUID,omitempty"`
	Signed      enrollment.Signed `json:"signed,omitzero"`
	Told        string            `json:"told,omitempty"`
	Certificate []byte            `json:"certificate,omitempty"`
	Rejected    bool              `json:"rejected,omitempty"`
	Done        []Step            `json:"done"`
	Updated     time.Time         `json:"updated"`
}

// MarshalJSON implements [json.Marshaler].
func (j *Progress) MarshalJSON() ([]byte, error) {
	r := j.Request
	return json.Marshal(progressFile{
		Options: j.Options, Cluster: j.Cluster, Namespace: j.Namespace, Generating: j.Generating, Before: j.Before,
		Key: r.Key, KeyHash: r.KeyHash, RequestName: r.Name, Request: r.Spec.Request, RequestUID: r.UID,
		Signed: j.Signed, Told: j.Reported, Certificate: j.Certificate, Rejected: j.Rejected, Done: j.Done, Updated: j.Updated,
	})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (j *Progress) UnmarshalJSON(b []byte) error {
	var f progressFile
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*j = Progress{
		Options: f.Options, Cluster: f.Cluster, Namespace: f.Namespace, Generating: f.Generating, Before: f.Before,
		Request: Request{Key: f.Key, KeyHash: f.KeyHash, UID: f.RequestUID},
		Signed:  f.Signed, Reported: f.Told, Certificate: f.Certificate, Rejected: f.Rejected, Done: f.Done, Updated: f.Updated,
	}
	if f.RequestName != "" {
		j.Request.Ask(f.RequestName, f.Request, &f.Options)
		j.Request.Server, j.Request.Created = f.Cluster.Server, f.Updated
	}
	return nil
}
