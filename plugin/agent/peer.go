package agent

import (
	"errors"
	"fmt"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"net"
	"os"
	"syscall"
)

// peerPID is the process at the other end, 0 if the system does not tell.
func peerPID(c net.Conn) (pid int) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	if raw.Control(func(fd uintptr) { pid = wire.PeerPID(int(fd)) }) != nil {
		return 0
	}
	return pid
}

// checkPeer refuses a socket whose other end is another user's.
func checkPeer(c net.Conn) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("not a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var uid int
	if cerr := raw.Control(func(fd uintptr) { uid, err = wire.PeerUID(int(fd)) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("the other end of the socket is another user's (user id %d)", uid)
	}
	return nil
}
