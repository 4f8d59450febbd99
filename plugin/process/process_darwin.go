package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// startOf asks sysctl kern.proc.pid: microseconds since 1970.
func startOf(pid int) uint64 {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return 0
	}
	t := k.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec)
}

// parentOf asks the same, if the process is still the same one.
func parentOf(p ID) int {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", p.PID)
	if err != nil || startOf(p.PID) != p.Start {
		return 0
	}
	return int(k.Eproc.Ppid)
}

// Inside is the process itself: there are no pid namespaces here.
func (p ID) Inside() (pid, depth int) { return p.PID, 0 }

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
