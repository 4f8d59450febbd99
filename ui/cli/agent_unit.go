package cli

import (
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

func (a *app) agentUnit() *cobra.Command {
	var launchd, socket bool
	c := a.command(&cobra.Command{
		Use:   "unit",
		Short: "Print a systemd unit or a launchd file for the agent",
		Long: `Prints a file with which a service manager runs the agent from login on and restarts
it after a crash. You do not need it: without it, the agent starts when it is needed.
Standard error says where to put the file.

With --socket, prints the systemd socket unit that holds the bridge's port while no
agent runs, so that programs which outlive an agent can reach the next one.`,
		Example: "kubehsm agent unit > ~/.config/systemd/user/" + assets.SystemdName +
			"\nkubehsm agent unit --socket > ~/.config/systemd/user/" + assets.SystemdSocketName +
			"\nkubehsm agent unit --launchd",
		Args: cobra.NoArgs,
	}, func(*cobra.Command, []string) error {
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		agent := session.Agent{Env: &env.Env{Dirs: dirs, Executable: a.Executable}}
		b, where, err := agent.AgentUnit(launchd)
		if socket {
			b, where, err = agent.AgentSocket()
		}
		if err != nil {
			return err
		}
		if _, err := a.Stdout.Write(b); err != nil {
			return err
		}
		w := a.err()
		w.block(where)
		return w.flush()
	})
	c.Flags().BoolVar(&launchd, "launchd", false, "print a property list for macOS's launchd")
	c.Flags().BoolVar(&socket, "socket", false, "print the systemd socket unit for the bridge's port")
	c.MarkFlagsMutuallyExclusive("launchd", "socket")
	return c
}
