//go:build unix && !linux

package agent

import "syscall"

// apart gives a worker a session of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
