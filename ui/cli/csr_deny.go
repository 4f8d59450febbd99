package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/verb"
)

func (a *app) csrDeny() *cobra.Command {
	c, d := a.decide(false, &cobra.Command{
		Use:   "deny REQUEST",
		Short: "Deny a certificate request",
		Long: `Shows a request, asks, and denies it.

The command also ends the ticket that the request was filed with, as far as you may:
somebody else may have got hold of the ticket. A bootstrap token that is no ticket stays:
others may use it.`,
		Example: `kubehsm csr deny jane-1a2b3c4d --message 'ask for group dev only'
kubehsm csr deny jane-1a2b3c4d --keep-ticket --message 'use the other token'`,
	})
	c.Flags().BoolVar(&d.keepTicket, "keep-ticket", false, "keep the ticket of the request valid")
	return c
}

type decision struct {
	request.DecideOptions
	root  string
	yes   bool
	risks approvalRisks
	wait  time.Duration // the wait for tickets' certificates
	out   *format

	keepTicket bool
}

func (a *app) decide(approve bool, c *cobra.Command) (*cobra.Command, *decision) {
	var o *format
	d := &decision{DecideOptions: request.DecideOptions{Approve: approve}}
	c.Args = oneName("request")
	a.command(c, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if err := d.risks.check(); err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		roots, err := a.readRoots(d.root)
		if err != nil {
			return err
		}
		look := request.TicketLook{Context: a.context, Roots: roots}
		seen, err := request.NewRequests(env).Look(ctx, a.context, args[0],
			request.LookOptions{Roots: roots, ToDecide: true, Ticket: &look, Accept: d.risks})
		if err != nil {
			return err
		}
		if approve && look.Known {
			return a.approveTicket(ctx, env, look, seen, d, o)
		}
		w := a.err()
		requestWords(w, seen, present.Request(seen, time.Now()))
		question, consequence := present.Decision(seen, approve)
		// Nothing comes of a request that is decided.
		if (!approve || len(seen.Refusals) == 0) && seen.State == csr.Pending.String() {
			w.line("")
			w.line("%s", consequence)
		}
		if err := w.flush(); err != nil {
			return err
		}
		if !approve {
			if err := a.confirm(ctx, d.yes, question); err != nil {
				return err
			}
			return a.deny(ctx, env, seen, d, o)
		}
		if err := a.approves(ctx, seen, d, question); err != nil {
			return err
		}
		v, err := request.NewRequests(env).Decide(ctx, a.context, seen, d.DecideOptions)
		if err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) { w.line("%s: %s", v.Name, v.State) })
	})
	verb.Bind(c.Flags(), d.Options()...)
	c.Flags().StringVar(&d.root, "root", "", rootUsage)
	usage := "do not ask"
	if approve {
		usage = yesUsage
	}
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, usage)
	o = output(c)
	d.out = o
	return c, d
}

func (a *app) deny(ctx context.Context, env *env.Env, seen request.View, d *decision, o *format) error {
	done, err := request.NewRequests(env).Deny(ctx, a.context, seen, d.DecideOptions, d.keepTicket)
	if err != nil {
		return err
	}
	return a.emit(o, done, func(w *words) {
		w.line("%s: %s", done.Name, done.State)
		if done.TicketEnded {
			w.line("Its ticket is ended: another request takes another ticket.")
		}
		for _, n := range done.Notes {
			w.line("note: %s", n)
		}
	})
}
