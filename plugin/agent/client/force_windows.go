package client

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// endByForce ends the agent, which listens at the other end of conn. It has no workers. conn is
// nil where no connection could be made: then nothing tells which process is the agent.
func endByForce(_ string, conn net.Conn) (int, error) {
	if conn == nil {
		return 0, errors.New("the system does not tell which process is the agent")
	}
	id, perr := socket.Peer(conn)
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Release() }() // release frees a handle, nothing else
	own, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// While p is open, no other process has its number.
	switch args := process.Arguments(id.PID); {
	case perr != nil:
		return 0, fmt.Errorf("process %d: %w", id.PID, perr)
	case !strings.EqualFold(filepath.Base(process.Image(id.PID)), filepath.Base(own)),
		len(args) > 2 && !slices.Equal(args[1:3], []string{"agent", "serve"}):
		return 0, fmt.Errorf("process %d: it is not an agent", id.PID)
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, fmt.Errorf("process %d: %w", id.PID, err)
	}
	_, err = p.Wait()
	return id.PID, err
}

// checkHolder: this system does not tell who has a lock.
func checkHolder(net.Conn, string) error { return nil }
