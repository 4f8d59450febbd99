package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

func (a *app) tokenPUK() *cobra.Command {
	return a.group("puk", "Change the PUK, which unblocks the "+
		"PIN", verbs{"", []func() *cobra.Command{a.tokenPUKChange}})
}

func (a *app) tokenPUKChange() *cobra.Command {
	var o *format
	var token string
	var g generatePUK
	c := a.command(&cobra.Command{
		Use:   "change",
		Short: "Change the PUK of a PIV card",
		Long: `Asks for the current PUK, and twice for the new one, of 6 to 8 characters. With
--generate, the new PUK is random and shown once on the terminal. Keep it apart from
the token.`,
		Example: `kubehsm token puk change
kubehsm token puk change --generate
kubehsm token puk change --generate --print --puk-fd 3 3< puk`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		tokens, u, err := a.oneToken(ctx, token)
		if err != nil {
			return err
		}
		p, show, err := a.newPUK(c, &g)
		if err != nil {
			return err
		}
		d, err := tokens.ChangePIN(ctx, u, hsm.PUK, p)
		return a.changed(o, d, "The PUK is changed.", show(err))
	})
	tokenFlag(c, &token)
	c.Flags().BoolVar(&g.yes, "generate", false, "set a random PUK and show it once")
	c.Flags().BoolVar(&g.print, "print", false, "write the new PUK to standard output instead of the terminal")
	a.secretFD(c.Flags(), "puk-fd", "the PUK in force", isPUK)
	a.secretFD(c.Flags(), "new-puk-fd", "the new PUK", isNewPUK)
	c.MarkFlagsMutuallyExclusive("generate", "new-puk-fd")
	o = output(c)
	return c
}

type generatePUK struct{ yes, print bool }

func (a *app) newPUK(c *cobra.Command, g *generatePUK) (hsm.Prompter, func(error) *freshSecret, error) {
	if !g.yes {
		if g.print {
			return nil, nil, ui.Usagef("--print: no PUK is generated, so there is nothing to print")
		}
		return a.prompter(), func(err error) *freshSecret { return &freshSecret{err: err} }, nil
	}
	if err := a.showable(c.Context(), g.print, "PUK"); err != nil {
		return nil, nil, err
	}
	fresh, err := token.NewFreshPUK()
	if err != nil {
		return nil, nil, err
	}
	return fresh.Before(a.prompter()), func(err error) *freshSecret {
		f := &freshSecret{what: "PUK", print: g.print, err: err, ctx: c.Context()}
		if puk := fresh.InForce(err); puk != nil {
			f.secret, f.field, f.text = puk, "newPUK", string(puk.Bytes())
		}
		return f
	}, nil
}
