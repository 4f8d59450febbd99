//go:build unix && !linux

package hsm

import (
	"os"

	"golang.org/x/sys/unix"
)

// Harden forbids core dumps. These systems guard a process's memory from its own user by code
// signing (macOS) or not at all.
func Harden() error {
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}
