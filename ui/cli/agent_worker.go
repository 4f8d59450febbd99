package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

func (a *app) agentWorker() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "worker",
		Short: "Reach tokens for another kubehsm (that one starts this)",
		Long: `Reaches tokens for the kubehsm that started it, with their driver library and
PINs: what crashes or hangs there leaves that one and other tokens alone.`,
		Example: "kubehsm agent worker",
		Args:    cobra.NoArgs,
		Hidden:  true,
	}, func(c *cobra.Command, _ []string) error {
		control, err := child.Control()
		if err != nil {
			return err
		}
		a.host = worker.NewHost()
		defer a.Finishing.Begin()() // the worker's end has its own time limits
		env, err := a.env()
		if err != nil {
			return err
		}
		a.closers = nil // the worker closes the drivers, within a limit
		return a.host.Serve(c.Context(), env.Drivers, control)
	})
}
