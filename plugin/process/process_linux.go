package process

import (
	"bytes"
	"os"
	"strconv"
)

// startOf reads field 22 of /proc/PID/stat (proc_pid_stat(5)): clock ticks
// after boot. The second field may hold spaces; it ends at the last bracket.
func startOf(pid int) uint64 { return field(pid, 22) }

// terminalOf reads field 7: the device number.
func terminalOf(pid int) uint64 { return field(pid, 7) }

func field(pid, n int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from field 3 on
	if len(fields) <= n-3 {
		return 0
	}
	value, err := strconv.ParseUint(string(fields[n-3]), 10, 64)
	if err != nil {
		return 0
	}
	return value
}
