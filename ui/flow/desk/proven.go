package desk

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Proven are the pending requests that prove what they claim, of which an approver is warned of
// nothing: those whose key is attested to be in the token that their ticket names, and those that a
// user filed for an attested key with no more groups than now. Roots are what attestations are traced
// to; none means Yubico's. The others, of which there are left, need a closer look.
func (a Approvals) Proven(
	ctx context.Context,
	kubeContext string,
	roots []*x509.Certificate,
) (proven []request.View, left int, err error) {
	requests := request.NewRequests(a.env)
	if err := requests.CheckDecider(ctx, kubeContext, csr.ClientSigner); err != nil {
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
		case errors.Is(err, csr.ErrNotFound): // it was withdrawn meanwhile
			continue
		case err != nil:
			return nil, 0, err
		case v.State != csr.Pending.String():
			continue
		case v.Warned() || len(v.Refusals) > 0 || !look.Proven && !renews(v):
			left++
			continue
		}
		proven = append(proven, v)
	}
	return proven, left, nil
}

// renews tells whether the requester asks for themselves, and for no more than now.
func renews(v request.View) bool {
	return v.User == v.Requester && !strings.HasPrefix(v.User, "system:") &&
		!slices.ContainsFunc(v.Groups, func(g string) bool {
			return strings.HasPrefix(g, "kubehsm:") || !slices.Contains(v.RequesterGroups, g)
		})
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
// error is that of ctx alone: the requests that are left were not touched then.
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
			return done, err
		}
		p := ProvenApproval{Request: v.Name, User: v.User}
		if v.Ticket != nil {
			var t TicketApproval
			t, err = a.Ticket(ctx, request.TicketLook{Context: kubeContext, ID: v.TicketID()}, v, o, wait)
			p.Notes = t.Notes
		} else {
			_, err = request.NewRequests(a.env).Decide(ctx, kubeContext, v, o)
		}
		if err != nil {
			p.Problem = err.Error()
		}
		done = append(done, p)
	}
	return done, nil
}

// ProvenErr is the error where some of the requests were not approved, nil if all were.
func ProvenErr(done []ProvenApproval) error {
	failed := 0
	for _, p := range done {
		if p.Problem != "" {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return hint.With(fmt.Errorf("%d of %d requests were not approved", failed, len(done)),
		"look at each with `kubehsm csr show`")
}
