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

// terminalName looks where the kernel's device numbers lead
// (Documentation/admin-guide/devices.txt), and whether it is there.
func terminalName(device uint64) string {
	major, minor := device>>8&0xfff, device&0xff|device>>12&0xfff00
	name := ""
	switch {
	case major >= 136 && major <= 143:
		name = "/dev/pts/" + strconv.FormatUint((major-136)<<8+minor, 10)
	case major == 4 && minor < 64:
		name = "/dev/tty" + strconv.FormatUint(minor, 10)
	case major == 4:
		name = "/dev/ttyS" + strconv.FormatUint(minor-64, 10)
	}
	return named(name, device)
}

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
