package wire

import "golang.org/x/sys/unix"

// PeerUID asks LOCAL_PEERCRED (unix(4)).
func PeerUID(fd int) (int, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}

// PeerEnded is not told here.
func PeerEnded(int) (bool, error) { return false, nil }

// PeerPID asks LOCAL_PEERPID; 0 if it is unknown.
func PeerPID(fd int) int {
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return 0
	}
	return pid
}
