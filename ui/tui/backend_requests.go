package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
)

// ticketWait is how long the certificate is awaited before a ticket is left to
// expire instead of ended.
const ticketWait = 30 * time.Second

func breaksGlass(v flow.RequestView) bool { return slices.Contains(v.Groups, flow.BreakGlassGroup) }

// Request looks at a request, and compares it with its ticket or with the rules
// of break-glass if it is of that kind.
func (b *backend) Request(ctx context.Context, kubeContext, name string, look flow.RequestLook) (flow.RequestView, error) {
	look.Ticket = &flow.TicketLook{Context: kubeContext, Roots: look.Roots}
	v, err := flow.NewRequests(&b.Env.Env).Look(ctx, kubeContext, name, look)
	if err == nil && breaksGlass(v) {
		err = flow.BreakGlassCheck(ctx, nil, &v)
	}
	if err == nil && v.TicketID() != "" && !look.Ticket.Proven {
		v.Warnings = append(v.Warnings, "nothing proves whose key this is: have "+v.User+" read the words to you")
	}
	return v, err
}

// errWordsNeeded: the words must be compared where nothing else proves the key.
var errWordsNeeded = errors.New("nothing proves whose key this is")

// Decide decides as the request's kind wants it: a ticket is ended with its
// decision, break-glass is recorded.
func (b *backend) Decide(ctx context.Context, kubeContext string, seen flow.RequestView, o flow.DecideOptions) (flow.RequestView, error) {
	switch {
	case !o.Approve:
		done, err := flow.NewRequests(&b.Env.Env).Deny(ctx, kubeContext, seen, o, false)
		if err == nil && len(done.Notes) > 0 {
			err = fmt.Errorf("request %s is denied: %s", seen.Name, strings.Join(done.Notes, "; "))
		}
		return done.RequestView, err
	case seen.TicketID() != "":
		look := flow.TicketLook{Context: kubeContext}
		if _, err := flow.NewRequests(&b.Env.Env).Look(ctx, kubeContext, seen.Name, flow.RequestLook{Ticket: &look}); err != nil {
			return seen, err
		}
		if !look.Proven && o.Words == "" {
			return seen, hsm.WithHint(fmt.Errorf("request %s was not approved: %w", seen.Name, errWordsNeeded), "have the eight words read to you, and type them")
		}
		if !look.Known { // perhaps it is no ticket's, but a token for several
			return flow.NewRequests(&b.Env.Env).Decide(ctx, kubeContext, seen, o)
		}
		done, err := flow.NewApprovals(&b.Env.Env).Ticket(ctx, look, seen, o, ticketWait)
		return done.Request, err
	case breaksGlass(seen):
		v, _, err := flow.NewApprovals(&b.Env.Env).BreakGlass(ctx, kubeContext, seen, o)
		return v, err
	}
	return flow.NewRequests(&b.Env.Env).Decide(ctx, kubeContext, seen, o)
}
