//go:build !linux

package bridge

import "os/exec"

func asNobody(c *exec.Cmd) *exec.Cmd { return c }
