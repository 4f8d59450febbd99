package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent/port"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

func (a *app) agentStop() *cobra.Command {
	var release bool
	c := a.agentVerb(&cobra.Command{
		Use:   "stop",
		Short: "Lock all tokens and end the agent",
		Long: `Locks everything, as "kubehsm agent lock" does, and ends the agent. As long as
programs with a session still run, a small process without a key holds the bridge's
port for them. When one of them connects, that process starts a locked agent, and
the program asks for the PIN. With --release-port that process ends too, and those
programs are refused until another command starts an agent.`,
		Example: "kubehsm agent stop\nkubehsm agent stop --release-port",
	}, session.Agent.StopAgent, "Stopped.")
	stop := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := stop(c, args); err != nil || !release {
			return err
		}
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		return port.Release(dirs)
	}
	c.Flags().BoolVar(&release, "release-port", false,
		"also end the process that holds the bridge's port for running programs")
	return c
}
