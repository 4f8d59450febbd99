package wire

import (
	"errors"

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

// PeerEnded asks SO_PEERPIDFD whether the process that connected has ended: its
// number may be another's by now. Linux before 6.5 does not tell, and the answer is
// no.
func PeerEnded(fd int) (bool, error) {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return false, nil
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // it has been waited for
		return true, nil
	case err != nil:
		return false, err
	}
	defer unix.Close(pidfd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0, err
}

// PeerPID asks SO_PEERCRED; 0 if it is unknown.
func PeerPID(fd int) int {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(c.Pid)
}
