package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// BreakGlass approves the request that seen shows, as the second person.
// notes say what could not be done beside that.
func (a Approvals) BreakGlass(ctx context.Context, kubeContext string, seen request.View,
	o request.DecideOptions) (v request.View, notes []string, err error) {
	o.Approve, o.Own = true, false
	if v, err = request.NewRequests(a.env).Decide(ctx, kubeContext, seen, o); err != nil {
		return v, nil, err
	}
	if err := a.leaveEvent(ctx, kubeContext, v, "BreakGlassApproved", "approved for: "+seen.Note); err != nil {
		notes = append(notes, "no event was left on the request: "+err.Error())
	}
	return v, notes, nil
}

// Approvals approves requests whose kind wants more than a yes: a ticket is ended, and an
// event left.
type Approvals struct {
	env    *env.Env
	access cluster.Access
}

// NewApprovals returns those of the clusters that e leads to.
func NewApprovals(e *env.Env) Approvals { return Approvals{env: e, access: cluster.Access{Env: e}} }

// TicketApproval is a request that was approved under a ticket.
type TicketApproval struct {
	Request request.View `json:"request"`
	// Issued is the certificate's end, nil if it was not signed in time.
	Issued *time.Time `json:"notAfter,omitempty"`
	// Certificate is the issued chain, PEM: for a user whose token is gone.
	Certificate string `json:"certificate,omitempty"`
	// Ended tells that the ticket's token was deleted.
	Ended bool `json:"ticketEnded"`
	// Notes are what was not done, and why.
	Notes []string `json:"notes,omitempty"`
}

// Ticket approves the request that seen shows, waits up to wait for the
// certificate, and ends the ticket. If the wait is interrupted, to do it once more ends
// the ticket.
func (a Approvals) Ticket(ctx context.Context, look request.TicketLook, seen request.View, o request.DecideOptions,
	wait time.Duration) (TicketApproval, error) {
	o.Approve = true
	v, err := request.NewRequests(a.env).Decide(ctx, look.Context, seen, o)
	if err != nil {
		return TicketApproval{}, err
	}
	done := TicketApproval{Request: v}
	note := func(what string, err error) {
		if err != nil {
			done.Notes = append(done.Notes, what+": "+err.Error())
		}
	}
	note("no event was left on the request",
		a.leaveEvent(ctx, look.Context, v, "TicketApproved", "approved under the ticket "+look.ID))
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	pem, err := request.NewOwn(a.env).Wait(waiting, look.Context, v.Name, func(string) {})
	if err != nil {
		note("its ticket is not ended yet, as the certificate is not there; end it with `kubehsm bootstrap-token delete "+
			look.ID+"`", err)
	} else {
		cert, err := csr.ParseCertificate(pem)
		if err != nil {
			return done, err
		}
		done.Issued, done.Certificate = &cert.Leaf.NotAfter, string(pem)
		err = request.NewRequests(a.env).EndTicket(ctx, look.Context, look.ID)
		done.Ended = err == nil
		note("its ticket could not be ended", err)
	}
	if ctx.Err() != nil {
		return done, hint.Withf(fmt.Errorf("request %s is approved, and its ticket is not ended yet: %w", v.Name, ctx.Err()),
			"run the same command again to end it, or `kubehsm bootstrap-token delete %s`", look.ID)
	}
	return done, nil
}

// leaveEvent leaves an Event on a request, for those who look at it later. Not
// being allowed to is for the caller to tell.
func (a Approvals) leaveEvent(ctx context.Context, kubeContext string, v request.View, reason, message string) error {
	c, err := openObjects(ctx, a.access, kubeContext)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	return c.create(ctx, object{
		"apiVersion": "v1", "kind": "Event",
		// Events on what has no namespace are kept in this one.
		"metadata": map[string]any{"namespace": "default", "name": fmt.Sprintf("%s.%x", v.Name, time.Now().UnixNano())},
		"involvedObject": map[string]any{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
			"name": v.Name, "uid": v.UID},
		"reason": reason, "message": message, "type": "Normal", "count": 1, "firstTimestamp": now,
		"lastTimestamp": now,
		"source":        map[string]any{"component": "kubehsm"}, "reportingComponent": "kubehsm",
	})
}

func certificateHash(c *csr.Certificate) string {
	sum := sha256.Sum256(c.Leaf.Raw)
	return hex.EncodeToString(sum[:])
}
