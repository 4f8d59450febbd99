//go:build unix

package agent

import "syscall"

// detached gives a process a session of its own: ctrl-c and the terminal's end
// do not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
