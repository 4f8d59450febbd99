package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// look asks sysctl kern.proc.pid for the start, in microseconds since 1970, and the parent.
func look(pid int) (start uint64, parent int, err error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return 0, 0, ErrEnded
	}
	t := k.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec), int(k.Eproc.Ppid), nil
}

// CheckUser fails with [ErrOtherUser] unless the process is this user's.
func CheckUser(pid int) error {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ErrEnded
	}
	if int(k.Eproc.Ucred.Uid) != unix.Geteuid() {
		return ErrOtherUser
	}
	return nil
}

// terminalOf is the controlling terminal's device number.
func terminalOf(pid int) uint64 {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid || k.Eproc.Tdev < 0 {
		return 0
	}
	return uint64(k.Eproc.Tdev)
}

// terminalName is that of a pseudo-terminal, if it is there.
func terminalName(device uint64) string {
	return named(fmt.Sprintf("/dev/ttys%03d", unix.Minor(device)), device)
}
