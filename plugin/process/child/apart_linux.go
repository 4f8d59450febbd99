package child

import (
	"syscall"
)

// Apart gives a worker a session of its own, and an end with the agent
// (PR_SET_PDEATHSIG) even if its library does not let it notice that one.
func Apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
