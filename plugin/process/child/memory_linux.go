package child

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LockMemory keeps the whole process out of swap (mlockall(2)), where no limit
// counts: with one, a later allocation could fail. Single secrets are kept out of
// it anyway.
func LockMemory() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if limit.Cur != unix.RLIM_INFINITY {
		return nil
	}
	return os.NewSyscallError("mlockall", unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT))
}

// Memory is a process's resident set in bytes (proc_pid_statm(5)); 0 if it is
// unknown.
func Memory(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
