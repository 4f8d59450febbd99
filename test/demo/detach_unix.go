//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach gives cmd a session of its own: ctrl-c on the terminal is not for it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
