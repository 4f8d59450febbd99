package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) breakglassApprove() *cobra.Command {
	var o *format
	d := &decision{DecideOptions: request.DecideOptions{Approve: true}}
	c := a.command(&cobra.Command{
		Use:   "approve REQUEST",
		Short: "Approve a break-glass request, as the second person",
		Long: `Shows a break-glass request, asks, and approves it. Your own request is refused, and so
is one without a reason or for longer than an hour. The policy in the cluster, if it
is installed ("kubehsm rbac print breakglass"), refuses them too. If there are
warnings, you type the eight words that the requester reads to you, or the user name.`,
		Example: `kubehsm csr list --pending
kubehsm breakglass approve jane-1a2b3c4d`,
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
		env, err := a.env()
		if err != nil {
			return err
		}
		seen, err := request.NewRequests(env).Look(ctx, a.context, args[0],
			request.LookOptions{Roots: roots, ToDecide: true, Accept: d.risks, Checks: []request.Check{desk.BreakGlassCheck}})
		if err != nil {
			return err
		}
		w := a.err()
		requestWords(w, seen, present.Request(seen, time.Now()))
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.approves(ctx, seen, d, "Approve this break-glass request?"); err != nil {
			return err
		}
		v, notes, err := desk.NewApprovals(env).BreakGlass(ctx, a.context, seen, d.DecideOptions)
		if errors.Is(err, request.ErrWords) {
			return &ui.UsageError{Err: err}
		}
		if err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) {
			w.line("%s: %s", v.Name, v.State)
			for _, n := range notes {
				w.line("note: %s", n)
			}
		})
	})
	c.Flags().StringVar(&d.Words, "words", "", "eight `words` that the requester reads to you")
	c.Flags().StringVar(&d.Message, "message", "", "message kept with the decision, a `text`")
	c.Flags().StringVar(&d.root, "root", "", rootUsage)
	d.risks.bind(c.Flags())
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, yesUsage)
	o = output(c)
	return c
}
