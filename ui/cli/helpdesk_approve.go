package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

const (
	ticketWait      = 30 * time.Second
	ticketWaitUsage = "time limit for the certificate, a `duration`; after it the ticket is left to expire"
)

func (a *app) helpdeskApprove() *cobra.Command {
	var o *format
	var ticketFile string
	d := &decision{DecideOptions: request.DecideOptions{Approve: true}}
	c := a.command(&cobra.Command{
		Use:   "approve REQUEST",
		Short: "Approve a request that was filed with a ticket",
		Long: `Shows a request, compares it with its ticket, asks, and approves it. The API server
writes the terms of the ticket on each request that is filed with it. If a request has
none, give the ticket with --ticket, as its maker sent it to you, not the user.

If the ticket names a token and the request proves that its key is in that token, no
more proof is needed. Otherwise have the user read the eight words to you, on the
phone or face to face.

When the certificate is issued, the ticket ends: each ticket serves one request.`,
		Example: `kubehsm csr list --pending
kubehsm helpdesk approve jane-1a2b3c4d
kubehsm helpdesk approve jane-1a2b3c4d --words 'abandon zoo …' --yes`,
		Args: oneName("request"),
	}, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if err := d.risks.check(); err != nil {
			return err
		}
		roots, err := a.readRoots(d.root)
		if err != nil {
			return err
		}
		look := request.TicketLook{Context: a.context, Roots: roots, Must: true}
		if c.Flags().Changed("ticket") {
			t, err := a.handedTicket(ctx, "ticket", ticketFile)
			if err != nil {
				return err
			}
			defer t.Wipe()
			look.Ticket = &t
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		seen, err := request.NewRequests(env).Look(ctx, a.context, args[0],
			request.LookOptions{Roots: roots, ToDecide: true, Ticket: &look, Accept: d.risks})
		if err != nil {
			return err
		}
		return a.approveTicket(ctx, env, look, seen, d, o)
	})
	c.Flags().StringVar(&ticketFile, "ticket", "",
		"`file` with the ticket, if it was made elsewhere; - for standard input")
	c.Flags().StringVar(&d.Words, "words", "", "eight `words` that the person who joins reads to you")
	c.Flags().StringVar(&d.Message, "message", "", "message kept with the decision, a `text`")
	d.risks.bind(c.Flags())
	c.Flags().StringVar(&d.root, "root", "", rootUsage)
	c.Flags().DurationVar(&d.wait, "timeout", ticketWait, ticketWaitUsage)
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, yesUsage)
	o = output(c)
	return c
}

// approveTicket shows a request that was filed with a ticket, approves it, and
// ends the ticket.
func (a *app) approveTicket(ctx context.Context, env *env.Env, look request.TicketLook, seen request.View, d *decision,
	o *format) error {
	w := a.err()
	requestWords(w, seen, present.Request(seen, time.Now()))
	if err := w.flush(); err != nil {
		return err
	}
	question, _ := present.Decision(seen, true)
	if err := a.approves(ctx, seen, d, question); err != nil {
		return err
	}
	done, err := desk.NewApprovals(env).Ticket(ctx, look, seen, d.DecideOptions, d.wait)
	switch {
	case errors.Is(err, request.ErrWords):
		return &ui.UsageError{Err: err}
	case err != nil:
		return err
	}
	return a.emit(o, done, func(w *words) {
		w.line("%s: %s", done.Request.Name, done.Request.State)
		if done.Issued != nil {
			w.line("The certificate is good until %s.", present.Date(*done.Issued))
		}
		if done.Ended {
			w.line("The ticket is ended. If they did not get the certificate: %s csr wait %s > cert.pem, and have "+
				"them join with --certificate.", a.name(), done.Request.Name)
		}
		for _, n := range done.Notes {
			w.line("note: %s", n)
		}
	})
}
