//go:build unix

package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Detached gives a process a session of its own: ctrl-c and the terminal's end
// do not reach it.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// PassReady has cmd, which is not started yet and has its attributes, inherit the pipe w and
// find it by [EnvReady].
func PassReady(cmd *exec.Cmd, w *os.File) error {
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", EnvReady, 2+len(cmd.ExtraFiles)))
	return nil
}
