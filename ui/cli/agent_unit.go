package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/assets"
)

func (a *app) agentUnit() *cobra.Command {
	var launchd bool
	c := a.command(&cobra.Command{
		Use:   "unit",
		Short: "Print a systemd user unit, or a launchd file, for the agent",
		Long: `Prints what a service manager needs to run the agent from login on and to start
it again if it crashes. This is a choice: without it the agent starts when it is
needed. Where to put the file is said on standard error.`,
		Example: "kubehsm agent unit > ~/.config/systemd/user/" + assets.SystemdName + "\nkubehsm agent unit --launchd",
		Args:    cobra.NoArgs,
	}, func(*cobra.Command, []string) error {
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		s := assets.Service{Executable: a.Executable, Home: dirs.Home}
		file, where := assets.Systemd, `Put it into ~/.config/systemd/user/`+assets.SystemdName+`, then run
  kubehsm agent stop
  systemctl --user daemon-reload
  systemctl --user enable --now `+assets.SystemdName
		if launchd {
			file, where = assets.Launchd, `Put it into ~/Library/LaunchAgents/`+assets.LaunchdName+`.plist, then run
  kubehsm agent stop
  launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/`+assets.LaunchdName+`.plist`
		}
		b, err := file(s)
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
	return c
}
