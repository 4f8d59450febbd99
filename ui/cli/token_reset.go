package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

func (a *app) tokenReset() *cobra.Command {
	var o *format
	var uri string
	var r risk
	c := a.command(&cobra.Command{
		Use:   "reset",
		Short: "Erase the PIV application of a card",
		Long: `Destroys all PIV keys and certificates of a card, after you have typed its serial. The
command shows what is lost, the affected enrollments, and what remains: the attestation
key, and everything outside PIV (FIDO, OpenPGP, OTP, OATH). PIN, PUK and management key
become the default ones. Change them before you use the card again.

You need neither PIN nor PUK: use this when both are blocked.`,
		Example: `kubehsm token reset --token 'piv:serial=12345678'
kubehsm token reset --token 'piv:serial=12345678' --accept-risk serial:12345678`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		tokens, u, err := a.oneToken(ctx, uri)
		if err != nil {
			return err
		}
		d, err := tokens.Reset(ctx, u, func(l token.Loss) (hsm.Prompter, error) {
			if err := a.lossWords(l); err != nil {
				return nil, err
			}
			return r.prompter(a.prompter(), l)
		})
		if err != nil {
			return err
		}
		if err := a.changed(o, d, "The PIV application is reset.", &freshSecret{}); err != nil {
			return err
		}
		return a.defaultNotes(d)
	})
	tokenFlag(c, &uri)
	r.bind(c.Flags())
	o = output(c)
	return c
}
