package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

func (a *app) kubeconfigUse() *cobra.Command {
	var ch change
	c := a.inEnv(&cobra.Command{
		Use:   "use CONTEXT",
		Short: "Make a context the current one",
		Long: `Does what "kubectl config use-context" does, after showing the difference. "kubehsm
kubeconfig undo" takes the change back.`,
		Example: "kubehsm kubeconfig use prod-hsm\nkubehsm kubeconfig use prod-hsm --yes",
		Args:    cobra.ExactArgs(1),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		plan, err := contexts.New(env).Use(c.Context(), args[0])
		if err != nil {
			return err
		}
		return a.apply(c.Context(), plan, ch)
	})
	ch.bind(c)
	return c
}
