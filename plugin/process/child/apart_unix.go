//go:build unix && !linux

package child

import (
	"syscall"
)

// Apart gives a worker a session of its own.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
