//go:build unix

package host

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func getsid(pid int) (int, error) { return unix.Getsid(pid) }

// ownSession has the program run without the test's terminal.
func ownSession(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
