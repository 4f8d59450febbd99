package agent

import (
	"github.com/kubehsm/kubehsm/plugin/home"
)

// ReleasePort ends a holder of the bridge's port, see [ServeHold]: after the agent.
func ReleasePort(d home.Dirs) error {
	l, err := takePort(d)
	if l == nil || err != nil {
		return err
	}
	return l.Close()
}
