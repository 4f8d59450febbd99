package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent"
)

func (a *app) agentStop() *cobra.Command {
	return a.agentVerb(&cobra.Command{
		Use:     "stop",
		Short:   "Lock everything and end the agent",
		Example: "kubehsm agent stop",
	}, (*agent.Client).Stop, "Stopped.")
}
