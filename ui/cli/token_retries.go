package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
)

// mostTries is the highest counter that PIV cards have.
const mostTries = 15

func (a *app) tokenRetries() *cobra.Command {
	var o *format
	var token string
	var pin, puk int
	var g generatePUK
	c := a.command(&cobra.Command{
		Use:   "retries",
		Short: "Set how many wrong tries block PIN and PUK of a PIV card",
		Long: `Sets the number of tries of PIN and PUK, 1 to 15 each. The card then also sets both to
their defaults. kubehsm sets your PIN again and asks for a new PUK, or makes a random
one with --generate-puk and shows it once.`,
		Example: `kubehsm token retries --pin 5 --puk 3
kubehsm token retries --pin 5 --puk 3 --generate-puk`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		if pin < 1 || pin > mostTries || puk < 1 || puk > mostTries {
			return ui.Usagef("--pin and --puk: between 1 and %d tries each", mostTries)
		}
		tokens, u, err := a.oneToken(ctx, token)
		if err != nil {
			return err
		}
		p, show, err := a.newPUK(c, &g)
		if err != nil {
			return err
		}
		d, err := tokens.SetRetries(ctx, u, pin, puk, p)
		return a.changed(o, d, "The number of tries is set.", show(err))
	})
	tokenFlag(c, &token)
	c.Flags().IntVar(&pin, "pin", 0, "`number` of wrong PINs that block the PIN")
	c.Flags().IntVar(&puk, "puk", 0, "`number` of wrong PUKs that block the PUK")
	for _, name := range []string{"pin", "puk"} {
		must(c.MarkFlagRequired(name))
	}
	g.bind(c, "generate-puk")
	a.secretFD(c.Flags(), "new-puk-fd", "the new PUK", isNewPUK)
	a.secretFD(c.Flags(), "management-key-fd", "the management key, in hex,", isManagementKey)
	c.MarkFlagsMutuallyExclusive("generate-puk", "new-puk-fd")
	o = output(c)
	return c
}
