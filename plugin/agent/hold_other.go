//go:build !unix

package agent

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// hold is nothing here: descriptors are not passed on, and the port is free while
// no agent runs.
type hold struct{}

func startHold(string, *net.TCPListener) (*hold, error) { return &hold{}, nil }

func (h *hold) ended() bool             { return false }
func (h *hold) tell([]process.ID) error { return nil }
func (h *hold) leave(bool)              {}

func takePort(home.Dirs) (net.Listener, error) { return nil, nil }

// ServeHold is not for this system.
func ServeHold(context.Context, home.Dirs, string, *os.File) error {
	return errors.New("hold the bridge's port: not on this system")
}
