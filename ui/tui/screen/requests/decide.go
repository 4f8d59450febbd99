package requests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// ticketWait is how long to wait for the certificate before the ticket is left to expire.
const ticketWait = 30 * time.Second

func breaksGlass(v request.View) bool {
	return slices.Contains(v.Groups, request.BreakGlassGroup)
}

// inspect reads a request, and compares it with its ticket or with the rules of break-glass.
func inspect(ctx context.Context, all request.Requests, kubeContext, name string) (request.View, error) {
	v, err := all.Look(ctx, kubeContext, name, request.LookOptions{})
	if err == nil && breaksGlass(v) {
		err = desk.BreakGlassCheck(ctx, nil, &v)
	}
	return v, err
}

// carryOut approves or denies; it also ends a ticket, and records a break-glass approval.
func carryOut(ctx context.Context, s Services, kubeContext string, seen request.View,
	o request.DecideOptions) (request.View, error) {
	switch {
	case !o.Approve:
		done, err := s.Requests.Deny(ctx, kubeContext, seen, o, false)
		if err == nil && seen.Ticket != nil && len(done.Notes) > 0 { // the form says that other tokens stay
			err = fmt.Errorf("request %s is denied: %s", seen.Name, strings.Join(done.Notes, "; "))
		}
		return done.View, err
	case seen.TicketID() != "":
		look := request.TicketLook{Context: kubeContext}
		if _, err := s.Requests.Look(ctx, kubeContext, seen.Name, request.LookOptions{Ticket: &look}); err != nil {
			return seen, err
		}
		if !look.Known { // perhaps it is no ticket's, but a token for several
			return s.Requests.Decide(ctx, kubeContext, seen, o)
		}
		done, err := s.Approvals.Ticket(ctx, look, seen, o, ticketWait)
		return done.Request, err
	case breaksGlass(seen):
		v, _, err := s.Approvals.BreakGlass(ctx, kubeContext, seen, o)
		return v, err
	}
	return s.Requests.Decide(ctx, kubeContext, seen, o)
}
