//go:build unix

package provider

import (
	"os"
	"syscall"
)

// terminate lets the program put the terminal in order.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
