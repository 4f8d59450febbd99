package session

import (
	"github.com/kubehsm/kubehsm/assets"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// AgentUnit is what a service manager needs to run the agent from login on and
// to start it again if it crashes - a systemd user unit, or a property list for
// launchd - and where to put it, in words.
func (a Agent) AgentUnit(launchd bool) (file []byte, where string, err error) {
	defer func() {
		err = hint.With(err, "move kubehsm, or the folder that KUBEHSM_HOME names, to an absolute path of plain characters")
	}()
	s := assets.Service{Executable: a.Env.Named(), Home: a.Env.Dirs.Home}
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
  systemctl --user enable --now ` + assets.SystemdName + `
To have systemd hold the bridge's port while no agent runs, also install the unit that
` + "`kubehsm agent unit --socket`" + ` prints.`, err
}

// AgentSocket is the unit by which systemd holds the bridge's port for the unit of
// [Agent.AgentUnit], and where to put it, in words.
func (a Agent) AgentSocket() (file []byte, where string, err error) {
	ep, err := a.Env.Bridge()
	if err != nil {
		return nil, "", err
	}
	return assets.SystemdSocket(ep.Address()), `Put it into ~/.config/systemd/user/` +
		assets.SystemdSocketName + `, beside ` + assets.SystemdName + `, then run
  systemctl --user stop ` + assets.SystemdName + `
  kubehsm agent stop
  systemctl --user daemon-reload
  systemctl --user enable --now ` + assets.SystemdSocketName + ` ` + assets.SystemdName + `
Print the unit again after the bridge got another port.`, nil
}
