package flow

import "github.com/kubehsm/kubehsm/assets"

// AgentUnit is what a service manager needs to run the agent from login on and
// to start it again if it crashes - a systemd user unit, or a property list for
// launchd - and where to put it, in words.
func (e *Env) AgentUnit(launchd bool) (file []byte, where string, err error) {
	s := assets.Service{Executable: e.Executable, Home: e.Dirs.Home}
	if launchd {
		file, err = assets.Launchd(s)
		return file, `Put it into ~/Library/LaunchAgents/` + assets.LaunchdName + `.plist, then run
  kubehsm agent stop
  launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/` + assets.LaunchdName + `.plist`, err
	}
	file, err = assets.Systemd(s)
	return file, `Put it into ~/.config/systemd/user/` + assets.SystemdName + `, then run
  kubehsm agent stop
  systemctl --user daemon-reload
  systemctl --user enable --now ` + assets.SystemdName, err
}
