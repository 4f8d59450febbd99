package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) csrApprove() *cobra.Command {
	c, d := a.decide(true, &cobra.Command{
		Use:   "approve REQUEST | --proven",
		Short: "Approve a certificate request",
		Long: `Shows a request, asks, and approves it. If the request was changed or replaced in
between, nothing is approved. If no attestation proves that the key is in a token,
have the requester read out the eight words of the fingerprint ("kubehsm key show").

If there are warnings, you type the eight words, or the user name. In scripts, give
--words or --accept-risk user:NAME.

A request that was filed with a ticket is compared with the ticket, and the ticket is
ended, as "kubehsm helpdesk approve" does. A request that does not match its ticket is
refused, and so is a request for a key or certificate that is revoked in the cluster, or
for a user, key or certificate that was revoked from this computer. --accept-risk mismatch
and --accept-risk revoked approve them anyway.

--proven approves, with one question, all pending requests that prove what they claim:
the key is attested to be in the token that their ticket names, or a user renews with no
more groups than now, and the attested key is in their token on the roster, or is that of
the certificate that they file with. The others are left.`,
		Example: `kubehsm csr approve jane-1a2b3c4d
kubehsm csr approve jane-1a2b3c4d --words 'act abandon zoo zebra cat dog apple ball' --message 'on the phone'
kubehsm csr approve --proven`,
	})
	var proven bool
	one, args := c.RunE, c.Args
	c.Args = func(c *cobra.Command, given []string) error {
		if proven {
			return cobra.NoArgs(c, given)
		}
		return args(c, given)
	}
	a.command(c, func(c *cobra.Command, given []string) error {
		if proven {
			return a.approveProven(c, d)
		}
		return one(c, given)
	})
	c.Flags().BoolVar(&proven, "proven", false, "approve all requests that prove what they claim")
	d.risks.bind(c.Flags())
	c.Flags().DurationVar(&d.wait, "timeout", ticketWait, ticketWaitUsage)
	for _, of := range []string{"words", "own", "accept-risk"} {
		c.MarkFlagsMutuallyExclusive("proven", of)
	}
	return c
}

func (a *app) approveProven(c *cobra.Command, d *decision) error {
	ctx := c.Context()
	env, err := a.env()
	if err != nil {
		return err
	}
	roots, err := a.readRoots(d.root)
	if err != nil {
		return err
	}
	approvals := desk.NewApprovals(env)
	seen, left, err := approvals.Proven(ctx, a.context, roots)
	if err != nil {
		return err
	}
	doc := struct {
		Requests []desk.ProvenApproval `json:"requests"`
		Left     int                   `json:"left"`
	}{[]desk.ProvenApproval{}, left}
	if len(seen) > 0 {
		w := a.err()
		w.sections([]present.Section{present.Proven(seen, time.Now())})
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(ctx, d.yes, present.ProvenQuestion(len(seen))); err != nil {
			return err
		}
		done, stopped := approvals.ApproveProven(ctx, a.context, seen, d.DecideOptions, d.wait)
		doc.Requests, err = append(doc.Requests, done...), stopped
	}
	return errors.Join(a.emit(d.out, doc, func(w *words) {
		w.sections([]present.Section{present.ProvenApprovals(doc.Requests, left)})
	}), err)
}
