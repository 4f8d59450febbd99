package request

import (
	"context"
	"fmt"
)

// Denial is a request that was denied, and what became of its ticket.
type Denial struct {
	View
	// TicketEnded tells that the token of the ticket it was filed with is deleted.
	TicketEnded bool `json:"ticketEnded,omitempty"`
	// Notes are what was not done, and why.
	Notes []string `json:"notes,omitempty"`
}

// Deny denies the request that seen shows. A ticket that it was filed with has
// been in the wrong hands, or is for the wrong thing: it is ended, unless
// keepTicket leaves it for another request. That it could not be is a note. A
// bootstrap token without terms stays: the line of `kubehsm roster line` has one
// that everybody joins with, and anybody may file a bad request with it.
func (q Requests) Deny(ctx context.Context, kubeContext string, seen View, o DecideOptions,
	keepTicket bool) (Denial, error) {
	o.Approve = false
	v, err := q.Decide(ctx, kubeContext, seen, o)
	if err != nil {
		return Denial{}, err
	}
	done := Denial{View: v}
	id := v.TicketID()
	if id == "" {
		return done, nil
	}
	over := context.WithoutCancel(ctx) // the denial is complete: end the ticket even if interrupted
	defer q.env.Finishing.Begin()()
	switch {
	case keepTicket:
	case seen.Ticket == nil:
		done.Notes = append(done.Notes,
			fmt.Sprintf("its bootstrap token stays, because others may use it: no ticket is known here with that ID; "+
				"end it with `kubehsm bootstrap-token delete %s`", id))
	default:
		err := q.EndTicket(over, kubeContext, id)
		if done.TicketEnded = err == nil; err != nil {
			done.Notes = append(done.Notes,
				fmt.Sprintf("its ticket is not ended: %v; somebody who may end it does so with `kubehsm bootstrap-token delete %s`",
					err, id))
		}
	}
	return done, nil
}
