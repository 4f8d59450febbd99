package desk

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Proven lists the pending requests that prove what they claim and have no warning: those whose key is
// attested to be in the token that their ticket names, and renewals, whose user asks for no more groups
// than now, for an attested key in their token on the roster or for that of the present certificate.
// Roots are what attestations are traced to; none means Yubico's. left counts the others.
func (a Approvals) Proven(
	ctx context.Context,
	kubeContext string,
	roots []*x509.Certificate,
) (proven []request.View, left int, err error) {
	requests := request.NewRequests(a.env)
	if err := requests.CheckDecider(ctx, kubeContext, csr.ClientSigner); err != nil {
		return nil, 0, err
	}
	tokens, err := openObjects(ctx, a.access, kubeContext)
	if err != nil {
		return nil, 0, err
	}
	all, err := requests.List(ctx, kubeContext, request.Filter{Pending: true})
	if err != nil {
		return nil, 0, err
	}
	for v, err := range all {
		if err != nil {
			return nil, 0, err
		}
		if v.SignerName != csr.ClientSigner {
			left++
			continue
		}
		look := request.TicketLook{Context: kubeContext, Roots: roots}
		v, err = requests.Look(ctx, kubeContext, v.Name, request.LookOptions{Roots: roots, Ticket: &look})
		switch {
		case errors.Is(err, csr.ErrNotFound): // the request was withdrawn meanwhile
			continue
		case err != nil:
			return nil, 0, err
		case v.State != csr.Pending.String():
			continue
		}
		ok := !v.Warned() && len(v.Refusals) == 0 && len(v.RightsUnknown) == 0 && len(v.AltNames) == 0 &&
			!slices.ContainsFunc(append([]string{v.User}, v.Groups...), reserved)
		if ok && !look.Proven {
			if ok, err = renews(ctx, tokens, v); err != nil {
				return nil, 0, err
			}
		}
		if ok {
			proven = append(proven, v)
		} else {
			left++
		}
	}
	return proven, left, nil
}

// reserved tells whether a name is not for people to have, break-glass among them.
func reserved(name string) bool {
	return strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kubehsm:")
}

// renews tells whether the requester asks for themselves and for no more groups than now, and whether the
// key is theirs: it is in a token that the roster gives them, or, where the roster does not have its
// token, the request was filed with a certificate for the same key.
func renews(ctx context.Context, tokens *objects, v request.View) (bool, error) {
	if v.User != v.Requester || v.Serial == "" ||
		slices.ContainsFunc(v.Groups, func(g string) bool { return !slices.Contains(v.RequesterGroups, g) }) {
		return false, nil
	}
	asked, err := judge.Read(v.Object)
	if err != nil {
		return false, err
	}
	o, err := tokens.get(ctx, rosterObject(v.Serial))
	switch {
	case err == nil:
		var token clusterapi.HardwareToken
		if err := o.into(&token); err != nil {
			return false, err
		}
		return judge.NotGiven(asked, &token, time.Now()) == "", nil
	case isForbidden(err): // the token may be lost
		return false, nil
	case !apierrors.IsNotFound(err):
		return false, err
	}
	present, err := asked.Present()
	return err == nil && present != nil && hsm.SameKey(present.PublicKey, asked.PublicKey), nil
}

// ProvenApproval is a request of those that were approved together.
type ProvenApproval struct {
	Request string `json:"request"`
	User    string `json:"user"`
	// Notes are what was not done beside, and why.
	Notes []string `json:"notes,omitempty"`
	// Problem is why it was not approved, "" if it was.
	Problem string `json:"problem,omitempty"`
}

// ApproveProven approves the requests that [Approvals.Proven] has found, one after the other, as they
// were seen. The certificate of one with a ticket is awaited for up to wait, and the ticket ended. The
// error counts those of done that were not approved, or, with the error of ctx, those after done, which
// were not touched.
func (a Approvals) ApproveProven(
	ctx context.Context,
	kubeContext string,
	seen []request.View,
	o request.DecideOptions,
	wait time.Duration,
) (done []ProvenApproval, err error) {
	o.Approve = true
	for _, v := range seen {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("%d of %d requests were not touched: %w", len(seen)-len(done), len(seen), err)
		}
		p := ProvenApproval{Request: v.Name, User: v.User}
		if v.Ticket != nil {
			var t TicketApproval
			t, err = a.Ticket(ctx, request.TicketLook{Context: kubeContext, ID: v.TicketID()}, v, o, wait)
			p.Notes = t.Notes
			if err != nil && t.Request.Name != "" { // the request is approved, and something failed after that
				p.Notes, err = append(p.Notes, err.Error()), nil
			}
		} else {
			_, err = request.NewRequests(a.env).Decide(ctx, kubeContext, v, o)
		}
		if err != nil {
			p.Problem = err.Error()
		}
		done = append(done, p)
	}
	failed := 0
	for _, p := range done {
		if p.Problem != "" {
			failed++
		}
	}
	if failed == 0 {
		return done, nil
	}
	return done, hint.With(fmt.Errorf("%d of %d requests were not approved", failed, len(done)),
		"look at each with `kubehsm csr show`")
}
