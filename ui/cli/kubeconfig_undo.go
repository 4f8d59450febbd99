package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

func (a *app) kubeconfigUndo() *cobra.Command {
	var ch change
	c := a.command(&cobra.Command{
		Use:   "undo [STEP]",
		Short: "Take a kubeconfig change back, after showing the difference",
		Long: `Takes back a change that kubehsm made to kubeconfig files: the latest, or the one
that STEP names or begins, as kubeconfig history shows them. What others have changed
since in other entries stays; if they have changed the same entry, nothing is done.
Undoing an undo brings the change back.`,
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
