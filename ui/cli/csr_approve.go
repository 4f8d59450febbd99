package cli

import "github.com/spf13/cobra"

func (a *app) csrApprove() *cobra.Command {
	c, d := a.decide(true, &cobra.Command{
		Use:   "approve REQUEST",
		Short: "Approve a certificate request, after showing it",
		Long: `Shows a request and approves it once you say so. If it was changed or replaced
in between, nothing is done. Have the requester read out the fingerprint's words
(kubehsm key show) where no attestation says that the key is in a token.

If there are warnings, a yes is not enough: type the eight words as they are read to
you, or the user's name. Beforehand, --words and --accept-risk user:NAME say that.

A request that was filed with a ticket is compared with it, and the ticket is ended,
as kubehsm helpdesk approve does. A request that does not match its ticket is refused,
and so is a request for a user, key or certificate that was revoked from this computer.
--accept-risk mismatch and --accept-risk revoked approve such a request anyway.`,
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
