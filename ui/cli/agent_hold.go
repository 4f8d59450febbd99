package cli

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent/port"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

func (a *app) agentHold() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "hold",
		Short: "Hold the bridge's port while no agent runs (the agent starts this)",
		Long: `Holds the bridge's port for programs that have a session and outlive the agent
that started it, and starts an agent when one of them connects. It has no key.`,
		Example: "kubehsm agent hold",
		Args:    cobra.NoArgs,
		Hidden:  true,
	}, func(c *cobra.Command, _ []string) error {
		control, err := child.Control()
		if err != nil {
			return err
		}
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGHUP) // the terminal may go, as with the agent
		return port.Serve(c.Context(), dirs, a.Executable, control)
	})
}
