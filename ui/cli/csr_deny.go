package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow"
)

func (a *app) csrDeny() *cobra.Command {
	c, _ := a.decide(false, &cobra.Command{
		Use:     "deny NAME",
		Short:   "Deny a certificate request, for good",
		Example: "kubehsm csr deny jane-1a2b3c4d --message 'ask for group dev only'",
	})
	return c
}

// decision are the flags of approve and deny.
type decision struct {
	flow.DecideOptions
	root string
	yes  bool
	wait time.Duration // of tickets' certificates
}

// decide makes a command that shows a request and approves or denies it.
func (a *app) decide(approve bool, c *cobra.Command) (*cobra.Command, *decision) {
	var o *format
	d := &decision{DecideOptions: flow.DecideOptions{Approve: approve}}
	question := "Deny this request?"
	if approve {
		question = "Approve this request?"
	}
	c.Args = oneName("request")
	a.command(c, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		env, err := a.env()
		if err != nil {
			return err
		}
		roots, err := a.readRoots(d.root)
		if err != nil {
			return err
		}
		look := flow.TicketLook{Context: a.context, Roots: roots}
		seen, err := env.Request(ctx, a.context, args[0], flow.RequestLook{Roots: roots, ToDecide: true, Ticket: &look})
		if err != nil {
			return err
		}
		if approve && look.Known {
			return a.approveTicket(ctx, env, look, seen, d, o)
		}
		w := a.err()
		requestWords(w, seen)
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(ctx, d.yes, question); err != nil {
			return err
		}
		v, err := env.Decide(ctx, a.context, seen, d.DecideOptions)
		if err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) { w.line("%s: %s", v.Name, v.State) })
	})
	c.Flags().StringVar(&d.Reason, "reason", "", "one `word` in CamelCase, kept with the decision")
	c.Flags().StringVar(&d.Message, "message", "", "a `sentence`, kept with the decision")
	c.Flags().StringVar(&d.root, "root", "", rootUsage)
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c, d
}
