package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

func (a *app) kubeconfigUndo() *cobra.Command {
	var ch change
	c := a.inEnv(&cobra.Command{
		Use:   "undo",
		Short: "Undo the last kubeconfig change",
		Long: `Undoes the last change that kubehsm made to the kubeconfig files, after showing the
difference. If a file was changed since, nothing is undone. You can also undo an undo.`,
		Example: "kubehsm kubeconfig undo --dry-run\nkubehsm kubeconfig undo",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		plan, err := contexts.New(env).Undo(c.Context())
		if err != nil {
			return err
		}
		return a.apply(c.Context(), plan, ch)
	})
	ch.bind(c)
	return c
}
