package port

import (
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Release ends a holder of the bridge's port, see [Serve]: after the agent.
func Release(d home.Dirs) error {
	l, err := Take(d)
	if l == nil || err != nil {
		return err
	}
	return l.Close()
}
