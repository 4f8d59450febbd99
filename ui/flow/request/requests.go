package request

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// View is a CertificateSigningRequest as an approver should see it. All
// text in it was written by others: clean it before printing.
type View struct {
	Name   string `json:"name"`
	UID    string `json:"uid"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // reason of the state
	// Message belongs to the state too.
	Message string `json:"message,omitempty"`
	// Requester is who filed it, by the cluster's own word.
	Requester       string   `json:"requester"`
	RequesterGroups []string `json:"requesterGroups,omitempty"`
	// RequesterKind says what kind of identity that is, where it is no person's.
	RequesterKind string `json:"requesterKind,omitempty"`
	// User and Groups are whom the certificate would stand for.
	User        string   `json:"user"`
	Groups      []string `json:"groups,omitempty"`
	AltNames    []string `json:"altNames,omitempty"` // with their kind: "DNS:a.example"
	SignerName  string   `json:"signerName"`
	Usages      []string `json:"usages"`
	Expiration  string   `json:"expiration,omitempty"`
	Key         string   `json:"key"`
	Fingerprint string   `json:"fingerprint"`
	// Words say the fingerprint's first 88 bits, see [csr.FingerprintWords].
	Words []string `json:"words,omitempty"`
	Note  string   `json:"note,omitempty"` // the requester's words
	// Attestation says what the request's attestation is worth; "" where nobody looked.
	Attestation string `json:"attestation,omitempty"`
	// Attested: the attestation is verified to a maker that is trusted.
	Attested bool `json:"attested,omitempty"`
	// Serial is the number of the token that the attestation proves the key to be in, "" if it does not.
	Serial  string    `json:"serial,omitempty"`
	Created time.Time `json:"created"`
	// Rights are what the user and the groups may do, a line a role binding;
	// nil where nobody looked. RightsUnknown says what could not be looked up.
	Rights        []string `json:"rights,omitempty"`
	RightsUnknown []string `json:"rightsUnknown,omitempty"`
	// Warnings are what an approver must not overlook.
	Warnings []string `json:"warnings,omitempty"`
	// Refusals are why [Requests.Decide] does not approve it; Risks are the words of
	// --accept-risk that make warnings of all of them, none if there is no way.
	Refusals []string `json:"refusals,omitempty"`
	Risks    []string `json:"risks,omitempty"`
	// Ticket is what the ticket that it was filed with is for, nil if it was filed
	// with none or nobody here knows.
	Ticket *ticket.Terms `json:"ticket,omitempty"`

	firm      bool // a refusal is there that --accept-risk does not cover
	onlyWords bool // only the words prove whose key it is

	// Object is the request as it was read; decisions are bound to it.
	Object *certificatesv1.CertificateSigningRequest `json:"-"`
}

// The risks that who approves a request may accept.
const (
	// RiskMismatch: the request is not what its ticket is for.
	RiskMismatch = "mismatch"
	// RiskRevoked: the request is for a key or certificate that is revoked in the cluster, or for a
	// user, key or certificate that was revoked from here.
	RiskRevoked = "revoked"
	// RiskUser is followed by the user's name: that user's certificate is approved over the warnings.
	RiskUser = "user:"
)

// Refuse adds reasons against approving it; they are warnings if accept has the
// risk. A risk of "" cannot be accepted. Names in the reasons may be of any length.
func (v *View) Refuse(risk string, accept []string, reasons ...string) {
	for i := range reasons {
		reasons[i] = csr.Brief(reasons[i])
	}
	switch {
	case len(reasons) == 0:
		return
	case risk != "" && slices.Contains(accept, risk):
		v.Warnings = append(v.Warnings, reasons...)
		return
	case risk == "":
		v.firm = true
	case !slices.Contains(v.Risks, risk):
		v.Risks = append(v.Risks, risk)
	}
	if v.Refusals = append(v.Refusals, reasons...); v.firm {
		v.Risks = nil
	}
}

// ViewOf is the view of a request as it was read.
func ViewOf(obj *certificatesv1.CertificateSigningRequest) View {
	s := csr.StateOf(obj)
	v := View{
		Name: obj.Name, UID: string(obj.UID), State: s.State.String(), Reason: s.Reason, Message: s.Message,
		Requester: obj.Spec.Username, RequesterGroups: obj.Spec.Groups, SignerName: obj.Spec.SignerName,
		Note: obj.Annotations[csr.ReasonAnnotation], Created: obj.CreationTimestamp.Time, Object: obj,
	}
	v.RequesterKind = requesterKind(v.Requester)
	for _, u := range obj.Spec.Usages {
		v.Usages = append(v.Usages, string(u))
	}
	if n := obj.Spec.ExpirationSeconds; n != nil {
		v.Expiration = (time.Duration(*n) * time.Second).String()
	}
	info, err := csr.InspectRequest(obj.Spec.Request)
	if err != nil {
		v.Warnings = append(v.Warnings, "the request cannot be read: "+err.Error())
		return v
	}
	v.User, v.Groups, v.AltNames = info.Subject.User, info.Subject.Groups, info.AlternativeNames()
	v.Key, v.Fingerprint = info.KeyAlgorithm, info.SPKIHash
	if v.Words, err = csr.FingerprintWords(info.SPKIHash); err != nil {
		v.Warnings = append(v.Warnings, err.Error()) // SPKIHash is our own, so the error is a defect
	}
	v.Warnings = append(v.Warnings, info.Oddities...)
	if v.User != v.Requester {
		v.Warnings = append(v.Warnings, v.inName())
	}
	return v
}

// inName warns that the requester asks for somebody else.
func (v *View) inName() string {
	return fmt.Sprintf("%q asks for a certificate in the name of %q", v.Requester, v.User)
}

// requesterKind names the identities of Kubernetes's own: behind them anybody
// may be.
func requesterKind(user string) string {
	for prefix, kind := range map[string]string{
		"system:bootstrap:":      "the bootstrap token %s: whoever holds it; ask who that is",
		"system:serviceaccount:": "the service account %s: a program, or somebody who can use it",
		"system:node:":           "the node %s",
	} {
		if rest, ok := strings.CutPrefix(user, prefix); ok {
			return fmt.Sprintf(kind, rest)
		}
	}
	if user == "system:anonymous" {
		return "nobody signed in"
	}
	return ""
}

// Filter chooses requests.
type Filter struct {
	// Signer, if not empty, is matched by the server; Label is kubectl's -l.
	Signer, Label string
	// Pending leaves only those that nobody has decided. The API server cannot
	// select by state, so all that it sends are looked at, one page at a time.
	Pending bool
}

func (f Filter) options() csr.ListOptions {
	return csr.ListOptions{SignerName: f.Signer, LabelSelector: f.Label}
}

func (f Filter) wants(obj *certificatesv1.CertificateSigningRequest) bool {
	return !f.Pending || csr.StateOf(obj).State == csr.Pending
}

// Requests are those in the clusters of the kubeconfig, as who approves them works
// with them.
type Requests struct {
	env    *env.Env
	access cluster.Access
}

// NewRequests returns those that e leads to.
func NewRequests(e *env.Env) Requests { return Requests{env: e, access: cluster.Access{Env: e}} }

// List goes through the requests in a cluster page by page.
func (q Requests) List(ctx context.Context, kubeContext string, f Filter) (iter.Seq2[View, error], error) {
	client, err := q.access.Client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	return func(yield func(View, error) bool) {
		for obj, err := range client.List(ctx, f.options()) {
			if err != nil {
				yield(View{}, err)
				return
			}
			if f.wants(obj) && !yield(ViewOf(obj), nil) {
				return
			}
		}
	}, nil
}

// Event is a request that was there, came, changed or went.
type Event struct {
	// Type is ADDED, MODIFIED or DELETED, as in a watch of the API's.
	Type    string `json:"type"`
	Request View   `json:"request"`
}

// Watch goes through the requests and then through their changes until
// ctx ends. One that is pending no more is told of once if only those are wanted.
func (q Requests) Watch(ctx context.Context, kubeContext string, f Filter) (iter.Seq2[Event, error], error) {
	client, err := q.access.Client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	return func(yield func(Event, error) bool) {
		told := map[types.UID]bool{}
		for ev, err := range client.Follow(ctx, f.options()) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			wanted := f.wants(ev.Object)
			if !wanted && !told[ev.Object.UID] {
				continue
			}
			if told[ev.Object.UID] = true; !wanted || ev.Type == watch.Deleted {
				delete(told, ev.Object.UID)
			}
			if !yield(Event{Type: string(ev.Type), Request: ViewOf(ev.Object)}, nil) {
				return
			}
		}
	}, nil
}
