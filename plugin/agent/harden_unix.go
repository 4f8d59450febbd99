//go:build unix && !linux

package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// harden forbids core dumps. These systems guard a process's memory from its
// own user by code signing (macOS) or not at all.
func harden() error {
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

func lockMemory() error { return nil }

func memoryOf(int) uint64 { return 0 }
