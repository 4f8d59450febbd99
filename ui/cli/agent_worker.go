package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

func (a *app) agentWorker() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "worker",
		Short: "Hold a token for the agent (the agent starts this)",
		Long: `Holds one token for the agent that started it, with its driver library and its
PIN: what crashes or hangs there leaves the agent and its other tokens alone.`,
		Example: "kubehsm agent worker",
		Args:    cobra.NoArgs,
		Hidden:  true,
	}, func(c *cobra.Command, _ []string) error {
		control, err := child.Control()
		if err != nil {
			return err
		}
		a.holds = true
		defer a.Finishing.Begin()() // the worker's end has its own time limits
		env, err := a.env()
		if err != nil {
			return err
		}
		a.closers = nil // the worker closes the drivers, within a limit
		return worker.Serve(c.Context(), env.Drivers, control)
	})
}
