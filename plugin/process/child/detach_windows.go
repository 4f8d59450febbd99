package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// Detached: CREATE_NEW_PROCESS_GROUP and DETACHED_PROCESS (CreateProcess flags).
func Detached() *syscall.SysProcAttr {
	const detachedProcess = 0x8
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}

// PassReady has cmd, which is not started yet and has its attributes, inherit the pipe w and
// find it by [EnvReady].
func PassReady(cmd *exec.Cmd, w *os.File) error {
	h := windows.Handle(w.Fd())
	if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		return os.NewSyscallError("SetHandleInformation", err)
	}
	cmd.SysProcAttr.AdditionalInheritedHandles = append(cmd.SysProcAttr.AdditionalInheritedHandles, syscall.Handle(h))
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", EnvReady, h))
	return nil
}
