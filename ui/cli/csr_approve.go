package cli

import "github.com/spf13/cobra"

func (a *app) csrApprove() *cobra.Command {
	c, d := a.decide(true, &cobra.Command{
		Use:   "approve REQUEST",
		Short: "Approve a certificate request",
		Long: `Shows a request, asks, and approves it. If the request was changed or replaced in
between, nothing is approved. If no attestation proves that the key is in a token,
have the requester read out the eight words of the fingerprint ("kubehsm key show").

If there are warnings, you type the eight words, or the user name. In scripts, give
--words or --accept-risk user:NAME.

A request that was filed with a ticket is compared with the ticket, and the ticket is
ended, as "kubehsm helpdesk approve" does. A request that does not match its ticket is
refused, and so is a request for a user, key or certificate that was revoked from this
computer. --accept-risk mismatch and --accept-risk revoked approve them anyway.`,
		Example: `kubehsm csr approve jane-1a2b3c4d
kubehsm csr approve jane-1a2b3c4d --words 'act abandon zoo zebra cat dog apple ball' --message 'on the phone'`,
	})
	c.Flags().StringVar(&d.Words, "words", "",
		"eight `words` that the requester reads to you; other keys are refused")
	c.Flags().BoolVar(&d.Own, "own", false, "approve a request of your own")
	d.risks.bind(c.Flags())
	c.Flags().DurationVar(&d.wait, "timeout", ticketWait, ticketWaitUsage)
	return c
}
