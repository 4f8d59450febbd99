package hsm

import (
	"os"

	"golang.org/x/sys/unix"
)

// Harden keeps other processes of the user from reading our memory (ptrace(2), /proc/PID/mem)
// and from seeing our descriptors, and the system from dumping the memory (prctl(2),
// PR_SET_DUMPABLE), until this process ends. [Guard] does so, too.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}
