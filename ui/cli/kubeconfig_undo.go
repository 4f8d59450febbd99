package cli

import "github.com/spf13/cobra"

func (a *app) kubeconfigUndo() *cobra.Command {
	var ch change
	c := a.command(&cobra.Command{
		Use:   "undo",
		Short: "Take the latest kubeconfig change back, after showing the difference",
		Long: `Takes back the latest change that kubehsm made to kubeconfig files. Entries that
others have changed since are left alone; undoing twice brings the change back.`,
		Example: "kubehsm kubeconfig undo --dry-run\nkubehsm kubeconfig undo",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		plan, err := env.KubeconfigUndo(c.Context())
		if err != nil {
			return err
		}
		return a.apply(c.Context(), plan, ch)
	})
	ch.bind(c)
	return c
}
