//go:build unix

package credential

import (
	"os"
	"syscall"
)

// terminalSignals are those that keys send to the whole foreground group.
var terminalSignals = []os.Signal{os.Interrupt, syscall.SIGQUIT}
