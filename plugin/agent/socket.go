package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// withSocketPath is [wire.WithPath] with the next step.
func withSocketPath(path string, f func(string) error) error {
	err := wire.WithPath(path, f)
	if errors.Is(err, wire.ErrPath) {
		return hsm.Hintf(err, "set %s to a folder with a shorter path", home.EnvHome)
	}
	return err
}

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	var conn net.Conn
	err := withSocketPath(path, func(p string) (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "unix", p)
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, hsm.WithHint(ErrNotRunning, "it starts with the next command that needs it")
	default:
		return nil, fmt.Errorf("agent: %w", err)
	}
	if err := checkPeer(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("agent: %w", err), conn.Close())
	}
	return conn, nil
}

// listenSocket replaces a stale socket: the caller holds the agent's lock, so
// nobody listens on it.
func listenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var l net.Listener
	err := withSocketPath(path, func(p string) error {
		u, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
		if err != nil {
			return err
		}
		u.SetUnlinkOnClose(false) // its name may be of a moment; Serve removes it
		l = u
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// socketName is the file that a socket listens under.
type socketName struct {
	path string
	file os.FileInfo
}

// takeName notes which file the socket just made is.
func takeName(path string) (socketName, error) {
	file, err := os.Lstat(path)
	return socketName{path, file}, err
}

// lost tells that nobody finds the socket by its name any more: the session
// folder goes when its user logs out, and an agent that cannot be told to lock
// must not stay unlocked, nor keep the bridge's port from its successor.
func (n socketName) lost() bool {
	now, err := os.Lstat(n.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !os.SameFile(n.file, now)
}

// remove removes the file, but not that of another agent.
func (n socketName) remove() error {
	if n.lost() {
		return nil
	}
	if err := os.Remove(n.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
