package flow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// RequestView is a CertificateSigningRequest as an approver should see it. All
// text in it was written by others: clean it before printing.
type RequestView struct {
	Name   string `json:"name"`
	UID    string `json:"uid"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // of the state
	// Message belongs to the state too.
	Message string `json:"message,omitempty"`
	// Requester is who filed it, by the cluster's own word.
	Requester       string   `json:"requester"`
	RequesterGroups []string `json:"requesterGroups,omitempty"`
	// User and Groups are whom the certificate would stand for.
	User        string   `json:"user"`
	Groups      []string `json:"groups,omitempty"`
	SignerName  string   `json:"signerName"`
	Usages      []string `json:"usages"`
	Expiration  string   `json:"expiration,omitempty"`
	Key         string   `json:"key"`
	Fingerprint string   `json:"fingerprint"`
	Note        string   `json:"note,omitempty"` // the requester's words
	// Attestation says what the request's attestation is worth; "" where nobody looked.
	Attestation string    `json:"attestation,omitempty"`
	Created     time.Time `json:"created"`
	// Warnings are what an approver must not overlook.
	Warnings []string `json:"warnings,omitempty"`

	// Object is the request as it was read; decisions are bound to it.
	Object *certificatesv1.CertificateSigningRequest `json:"-"`
}

func viewRequest(obj *certificatesv1.CertificateSigningRequest) RequestView {
	s := csr.StateOf(obj)
	v := RequestView{
		Name: obj.Name, UID: string(obj.UID), State: s.State.String(), Reason: s.Reason, Message: s.Message,
		Requester: obj.Spec.Username, RequesterGroups: obj.Spec.Groups, SignerName: obj.Spec.SignerName,
		Note: obj.Annotations[csr.ReasonAnnotation], Created: obj.CreationTimestamp.Time, Object: obj,
	}
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
	v.User, v.Groups = info.Subject.User, info.Subject.Groups
	v.Key, v.Fingerprint = info.KeyAlgorithm, info.SPKIHash
	v.Warnings = append(v.Warnings, info.Oddities...)
	if v.User != v.Requester {
		v.Warnings = append(v.Warnings, fmt.Sprintf("%q asks for a certificate in the name of %q", v.Requester, v.User))
	}
	return v
}

// RequestOptions say what request to file for a key that exists.
type RequestOptions struct {
	Name       string  // "" makes one from user and key
	Context    string  // kubeconfig context that files it
	Key        hsm.URI // names the key on its token
	User       string
	Groups     []string
	SignerName string
	Expiration time.Duration
	Reason     string
	// NoAttestation leaves the token's attestation of the key out.
	NoAttestation bool
}

// CreateRequest signs a PKCS#10 on the token and files it.
func (e *Env) CreateRequest(ctx context.Context, o RequestOptions, p hsm.Prompter) (RequestView, error) {
	client, err := e.client(ctx, o.Context)
	if err != nil {
		return RequestView{}, err
	}
	t, err := e.Drivers.Open(ctx, o.Key)
	if err != nil {
		return RequestView{}, err
	}
	defer t.Close()
	ctx = hsm.WithPurpose(ctx, hsm.Purpose{Action: "sign the certificate request"})
	signer, err := t.Signer(ctx, o.Key, nil, p)
	if err != nil {
		return RequestView{}, err
	}
	hash, err := hsm.Fingerprint(signer.Public())
	if err != nil {
		return RequestView{}, err
	}
	with := csr.RequestOptions{SignerName: o.SignerName}
	if !o.NoAttestation {
		if with.ExtraExtensions, _, err = attestation(ctx, t, o.Key); err != nil { // the view says that there is none
			return RequestView{}, fmt.Errorf("attest the key: %w", err)
		}
	}
	pem, err := csr.NewRequest(signer, csr.Subject{User: o.User, Groups: o.Groups}, with)
	if err != nil {
		return RequestView{}, err
	}
	if o.Name == "" {
		o.Name = csr.RequestName(o.User, hash)
	}
	spec := csr.Spec{Name: o.Name, Request: pem, SignerName: o.SignerName, Expiration: o.Expiration, Reason: o.Reason}
	obj, err := client.Create(ctx, spec)
	if csr.IsForbidden(err) {
		text, textErr := csr.AdminCommand(spec)
		if textErr != nil {
			return RequestView{}, errors.Join(err, textErr)
		}
		return RequestView{}, &SendToAdmin{Err: err, Text: text}
	}
	if err != nil {
		return RequestView{}, err
	}
	v := viewRequest(obj)
	v.judge(attest.Verifier{})
	return v, nil
}

// Requests goes through the requests in a cluster page by page; only those for
// signer unless it is empty.
func (e *Env) Requests(ctx context.Context, kubeContext, signer string) (iter.Seq2[RequestView, error], error) {
	client, err := e.client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	return func(yield func(RequestView, error) bool) {
		for obj, err := range client.List(ctx, csr.ListOptions{SignerName: signer}) {
			if err != nil {
				yield(RequestView{}, err)
				return
			}
			if !yield(viewRequest(obj), nil) {
				return
			}
		}
	}, nil
}

// Request reads one request.
func (e *Env) Request(ctx context.Context, kubeContext, name string) (RequestView, error) {
	client, err := e.client(ctx, kubeContext)
	if err != nil {
		return RequestView{}, err
	}
	obj, err := client.Get(ctx, name)
	if err != nil {
		return RequestView{}, err
	}
	v := viewRequest(obj)
	v.judge(attest.Verifier{})
	return v, nil
}

// WaitRequest follows a request to its end and returns the checked certificate,
// PEM, leaf first. report hears of changes, a line each, raw.
func (e *Env) WaitRequest(ctx context.Context, kubeContext, name string, report func(string)) ([]byte, error) {
	client, err := e.client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	status, err := client.Wait(ctx, csr.Ref{Name: name}, func(s csr.Status) { report(statusLine(name, s)) })
	if err != nil {
		return nil, err
	}
	cert, err := csr.Collect(status.Object, csr.Want{})
	if err != nil {
		return nil, err
	}
	return cert.PEM, nil
}

// Decide approves or denies the request that seen shows: if it was changed,
// replaced or decided since, nothing is done. An approver may not approve its
// own request unless own is set.
func (e *Env) Decide(ctx context.Context, kubeContext string, seen RequestView, approve, own bool, d csr.Decision) (RequestView, error) {
	client, err := e.client(ctx, kubeContext)
	if err != nil {
		return RequestView{}, err
	}
	decide := client.Deny
	if approve {
		decide = client.Approve
		if !own {
			if err := refuseOwn(ctx, client, seen); err != nil {
				return RequestView{}, err
			}
		}
	}
	obj, err := decide(ctx, seen.Object, d)
	if err != nil {
		return RequestView{}, err
	}
	return viewRequest(obj), nil
}

func refuseOwn(ctx context.Context, client *csr.Client, seen RequestView) error {
	me, err := client.WhoAmI(ctx)
	if errors.Is(err, csr.ErrNotServed) {
		return nil // before Kubernetes 1.28 nobody can tell
	}
	if err != nil {
		return err
	}
	if me.User == seen.Requester || me.User == seen.User {
		return hsm.WithHint(fmt.Errorf("request %s is your own (%s)", seen.Name, me.User),
			"let somebody else look at it, or insist with --own")
	}
	return nil
}
