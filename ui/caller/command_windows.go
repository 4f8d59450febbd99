package caller

import (
	"strings"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// commandLine is a process's, its arguments with zero bytes between them; nil where the system
// does not tell.
func commandLine(pid int) []byte {
	args := process.Arguments(pid)
	if len(args) == 0 {
		return nil
	}
	return []byte(strings.Join(args, "\x00"))
}
