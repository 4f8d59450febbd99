package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/session"
)

func (a *app) agentStop() *cobra.Command {
	return a.agentVerb(&cobra.Command{
		Use:   "stop",
		Short: "Lock all tokens and end the agent",
		Long: `Locks everything, as "kubehsm agent lock" does, and ends the agent. The connections of
programs with a session are refused until another command starts an agent.`,
		Example: "kubehsm agent stop",
	}, session.Agent.StopAgent, "Stopped.")
}
