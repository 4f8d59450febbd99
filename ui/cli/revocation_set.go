package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) revocationSet() *cobra.Command {
	var o *format
	var failClosed, yes bool
	var spared string
	c := a.inEnv(&cobra.Command{
		Use:   "set",
		Short: "Choose what a broken policy does, and whom the policies never refuse",
		Long: `Writes all policies of revoked certificates anew. What is not given stays as it is.

A policy that the API server cannot evaluate is passed over, so that nobody is locked
out. With --fail-closed it refuses the writes of the certificates that it cannot look up,
except for nodes and the recovery group.`,
		Example: "kubehsm revocation set --recovery-group kubehsm:recovery\nkubehsm revocation set --fail-closed",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		ctx := c.Context()
		stopping := desk.NewStopping(env)
		list, err := stopping.List(ctx, a.context)
		if err != nil {
			return err
		}
		if c.Flags().Changed("fail-closed") {
			list.Settings.FailClosed = failClosed
		}
		if c.Flags().Changed("recovery-group") {
			list.Settings.Spared = spared
		}
		if err := a.confirm(ctx, yes, "Write the policies anew?"); err != nil {
			return err
		}
		done, err := stopping.Configure(ctx, a.context, list.Settings)
		if err != nil {
			return err
		}
		return a.emit(o, done, func(w *words) {
			w.sections([]present.Section{{Lines: []present.Line{present.Enforced(*done)}}})
		})
	})
	c.Flags().BoolVar(&failClosed, "fail-closed", false, "refuse writes where a policy cannot be evaluated")
	c.Flags().StringVar(&spared, "recovery-group", "",
		"`group` whose members are never refused, kubehsm:…; default "+revocation.RecoveryGroup)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}
