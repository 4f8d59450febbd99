package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

func (a *app) kubeconfigRemove() *cobra.Command {
	var ch change
	c := a.command(&cobra.Command{
		Use:   "remove [ENROLLMENT]",
		Short: "Remove the kubeconfig entry of an enrollment",
		Long: `Removes the context, cluster and user of an enrollment from the kubeconfig, after
showing the difference. The enrollment stays: "kubehsm kubeconfig set" writes the entry
again, and "kubehsm unenroll" removes everything.`,
		Example: "kubehsm kubeconfig remove prod-hsm --dry-run\nkubehsm kubeconfig remove prod-hsm",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		var name string
		if len(args) > 0 {
			name = args[0]
		} else {
			e, err := a.enrollment(c.Context(), "")
			if err != nil {
				return err
			}
			name = e.Name
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		plan, err := contexts.New(env).Remove(c.Context(), name)
		if err != nil {
			return err
		}
		return a.apply(c.Context(), plan, ch)
	})
	ch.bind(c)
	return c
}
