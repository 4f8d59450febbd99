//go:build !unix

package port

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Holder is nothing here: descriptors are not passed on, and the port is free while
// no agent runs.
type Holder struct{}

// Start starts nothing.
func Start(string, *net.TCPListener) (*Holder, error) { return &Holder{}, nil }

// Ended is always false.
func (h *Holder) Ended() bool { return false }

// Tell does nothing.
func (h *Holder) Tell([]process.ID) error { return nil }

// Leave does nothing.
func (h *Holder) Leave(bool) {}

// Take returns no listener, since nobody holds the port.
func Take(home.Dirs) (net.Listener, error) { return nil, nil }

// Serve is not for this system.
func Serve(context.Context, home.Dirs, string, *os.File) error {
	return errors.New("hold the bridge's port: not on this system")
}
