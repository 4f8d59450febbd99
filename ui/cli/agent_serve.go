package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent/host"
)

func (a *app) agentServe() *cobra.Command {
	var supervised bool
	c := a.command(&cobra.Command{
		Use:   "serve",
		Short: "Run the agent in the foreground (commands start it when they need it)",
		Long: `Runs the agent: it keeps tokens unlocked for a while, holds the connections that
they signed and the bridge to them. It ends when it is told to, by "kubehsm
agent stop" or a signal, or when nobody has used it for an hour. "kubehsm agent
unit" prints what systemd and launchd need to run it.`,
		Example: "kubehsm agent serve",
		Args:    cobra.NoArgs,
		Hidden:  true,
	}, func(c *cobra.Command, _ []string) error {
		ready, err := host.ReadyFile(a.Getenv, os.Unsetenv)
		if err != nil {
			return err
		}
		a.holds = true
		defer a.Finishing.Begin()() // the agent's end has its own time limits
		port, err := host.PassedPort(a.Getenv, os.Unsetenv)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGHUP) // the terminal that it was started from may go
		a.closers = nil               // the agent closes its drivers
		return host.Serve(c.Context(), host.Options{
			Dirs: env.Dirs, Tokens: host.NewTokens(a.Executable,
				env.Drivers), Version: a.Version, Unlock: a.config.Unlock, LockOn: a.config.LockOn, Renew: a.config.Renew,
			Follow: a.config.Follow, Ready: ready,
			PINSources: a.sources, Supervised: supervised, Port: port,
		})
	})
	c.Flags().BoolVar(&supervised, "supervised", false,
		"for service managers: do not end when idle, fail when a newer program takes over")
	return c
}
