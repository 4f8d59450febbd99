package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) kubeconfigCheck() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:   "check [CONTEXT]",
		Short: "Sign in to the cluster of a context and show your user and groups",
		Long: `Signs in as kubectl would, and asks the cluster who you are. The token may ask for its
PIN or a touch. By default the command checks the current context.`,
		Example: "kubehsm kubeconfig check\nkubehsm kubeconfig check prod-hsm -o json",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		name := a.context
		if len(args) > 0 {
			name = args[0]
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		h, err := (session.Agent{Env: env}).CheckContext(c.Context(), name)
		if err != nil {
			return err
		}
		return a.emit(o, h, func(w *words) {
			w.line("%s.", present.Works(h))
			facts := []present.Fact{{Name: "Context", Value: h.Context}, {Name: "Server", Value: h.Server},
				{Name: "Took", Value: h.Took.String()}}
			w.facts(append(facts, present.HealthFacts(h)...))
		})
	})
	o = output(c)
	return c
}
