//go:build unix

package child

import (
	"syscall"
)

// Detached gives a process a session of its own: ctrl-c and the terminal's end
// do not reach it.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
