package cli

import "github.com/spf13/cobra"

func (a *app) csrApprove() *cobra.Command {
	c, d := a.decide(true, &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve a certificate request, after showing it",
		Long: `Shows a request and approves it once you say so. If it was changed or replaced
in between, nothing is done.`,
		Example: `kubehsm csr approve jane-1a2b3c4d
kubehsm csr approve jane-1a2b3c4d --message 'asked on the phone' --yes`,
	})
	c.Flags().BoolVar(&d.own, "own", false, "approve even what you asked for yourself")
	return c
}
