package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

func (a *app) breakglassSeal() *cobra.Command {
	var o *format
	var f breakGlassFlags
	c := a.command(&cobra.Command{
		Use:   "seal --user NAME --token URI --reason WORDS",
		Short: "Enroll a token in advance, to keep in a safe",
		Long: `Enrolls a token in the group kubehsm:sealed, with a user name of its own, so that
the cluster's audit log shows when it is used. A second person approves the request.
Keep the token and its PIN in different safes. "kubehsm breakglass list" shows when
the certificate must be renewed.`,
		Example: "kubehsm breakglass seal --user sealed-1 --token 'piv:serial=1234567' --lifetime 4380h --reason " +
			"'safe in room 12, two keys'",
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		options, err := f.options(a.context)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		options.User, options.Expiration = f.user, f.lifetime
		if options, err = desk.NewBreakGlass(env).Seal(c.Context(), a.context, options.Name, options); err != nil {
			return usage(err)
		}
		return a.breakGlass(c.Context(), env, options, f.enrollFlags, o)
	})
	f.bindTo(c.Flags())
	c.Flags().StringVar(&f.user, "user", "", "user `name` of the sealed token (required)")
	once(c.Flags(), "user")
	c.Flags().DurationVar(&f.lifetime, "lifetime", 0, "`lifetime` of the certificate; default the signer's")
	o = output(c)
	return c
}
