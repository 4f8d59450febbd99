package child

import (
	"syscall"
)

// Detached: CREATE_NEW_PROCESS_GROUP and DETACHED_PROCESS (CreateProcess flags).
func Detached() *syscall.SysProcAttr {
	const detachedProcess = 0x8
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
