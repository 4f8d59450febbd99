//go:build unix

package provider

import (
	"os"
	"syscall"
)

// terminate lets the program restore the terminal.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
