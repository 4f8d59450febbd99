package wire

import (
	"golang.org/x/sys/unix"
)

// PeerUID asks SO_PEERCRED (unix(7)).
func PeerUID(fd int) (int, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}

// PeerPID asks SO_PEERCRED; 0 if it is unknown.
func PeerPID(fd int) int {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(c.Pid)
}
