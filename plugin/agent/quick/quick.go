//go:build unix

// Package quick gets a credential from an agent that has it at hand: one round
// trip, and none of the packages that a person, a token or a network would
// need, not even net. Whatever is in the way, its caller executes kubehsm, whose
// package agent/client starts agents, asks people and finds words for failures.
package quick

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// timeout bounds the round trip; an agent at hand takes a millisecond.
const timeout = 2 * time.Second

// Credential asks the agent on socket for the ExecCredential that answers q, of which the caller fills in what the
// Kubernetes client says. It is nil if the agent has none at hand, or is of another program than
// the one at the path kubehsm, which then takes its place. It is the caller's to clear.
func Credential(kubehsm, socket string, q wire.Credential) []byte {
	info, err := os.Stat(kubehsm)
	if err != nil {
		return nil
	}
	conn, err := dial(socket)
	if err != nil {
		return nil
	}
	defer conn.Close()
	q.V, q.Op = wire.Version, wire.OpCredential
	q.Program = wire.Build{Path: kubehsm, Size: info.Size(), Modified: info.ModTime().UTC()}
	err = wire.WriteFrame(conn, wire.KindJSON, q.AppendJSON(nil))
	if err != nil {
		return nil
	}
	f, err := wire.ReadFrame(conn)
	if err != nil || f.Kind != wire.KindSecret {
		return nil
	}
	return f.Payload
}

// dial connects to the socket and makes sure that our own user listens on it.
func dial(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	conn := os.NewFile(uintptr(fd), path)
	if err := errors.Join(connect(fd, path), check(fd)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func connect(fd int, path string) error {
	t := unix.NsecToTimeval(timeout.Nanoseconds())
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} { // the latter bounds connect, too
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &t); err != nil {
			return err
		}
	}
	return wire.WithPath(path, func(p string) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: p}) })
}

func check(fd int) error {
	uid, err := wire.PeerUID(fd)
	if err == nil && uid != os.Geteuid() {
		err = os.ErrPermission
	}
	return err
}
