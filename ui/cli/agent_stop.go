package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow"
)

func (a *app) agentStop() *cobra.Command {
	return a.agentVerb(&cobra.Command{
		Use:     "stop",
		Short:   "Lock everything and end the agent",
		Long:    "Locks everything, as `kubehsm agent lock` does, and ends the agent.",
		Example: "kubehsm agent stop",
	}, (*flow.Env).StopAgent, "Stopped.")
}
