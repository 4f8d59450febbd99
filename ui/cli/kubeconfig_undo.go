package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

func (a *app) kubeconfigUndo() *cobra.Command {
	var ch change
	c := a.command(&cobra.Command{
		Use:   "undo [STEP]",
		Short: "Undo a kubeconfig change",
		Long: `Undoes a change that kubehsm made to kubeconfig files, after showing the difference:
the latest change, or the one that STEP names ("kubehsm kubeconfig history"). The
beginning of a step is enough. Later changes to other entries stay. If the same entry
was changed later, nothing is undone. You can also undo an undo.`,
		Example: "kubehsm kubeconfig undo --dry-run\nkubehsm kubeconfig undo\nkubehsm kubeconfig undo 20260301T10",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		step := ""
		if len(args) > 0 {
			step = args[0]
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		plan, err := contexts.New(env).Undo(c.Context(), step)
		if err != nil {
			return err
		}
		return a.apply(c.Context(), plan, ch)
	})
	ch.bind(c)
	return c
}
