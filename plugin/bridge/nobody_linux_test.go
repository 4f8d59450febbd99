package bridge

import (
	"os/exec"
	"syscall"
)

// asNobody makes a command run as another user.
func asNobody(c *exec.Cmd) *exec.Cmd {
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c.Dir = "/"
	return c
}
