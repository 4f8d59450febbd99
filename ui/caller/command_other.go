//go:build !windows

package caller

import (
	"fmt"
	"os"
)

// commandLine is a process's, each argument with a zero byte behind it; nil where the system
// does not tell (proc_pid_cmdline(5)).
func commandLine(pid int) []byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return b
}
