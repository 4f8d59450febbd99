package process

import (
	"bytes"
	"os"
	"strconv"
)

// startOf reads field 22 of /proc/PID/stat (proc_pid_stat(5)): clock ticks
// after boot. The second field may hold spaces; it ends at the last bracket.
func startOf(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
