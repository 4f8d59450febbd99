package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent"
	"github.com/kubehsm/kubehsm/ui/flow"
)

func (a *app) agentStop() *cobra.Command {
	var release bool
	c := a.agentVerb(&cobra.Command{
		Use:   "stop",
		Short: "Lock everything and end the agent",
		Long: `Locks everything, as "kubehsm agent lock" does, and ends the agent. While programs
run that have a session with it, a small process without a key holds the bridge's port for
them: the next one that connects starts a locked agent, which has it ask for the
PIN. With --release-port nothing is left, and those programs are refused until
another command starts an agent.`,
		Example: "kubehsm agent stop\nkubehsm agent stop --release-port",
	}, (*flow.Env).StopAgent, "Stopped.")
	stop := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := stop(c, args); err != nil || !release {
			return err
		}
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		return agent.ReleasePort(dirs)
	}
	c.Flags().BoolVar(&release, "release-port", false, "end the process too that holds the bridge's port for programs that run")
	return c
}
