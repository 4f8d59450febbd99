//go:build linux

package host

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// stat is /proc/PID/stat from field 3 on (proc_pid_stat(5)), empty if there is none.
func stat(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// watched is a process that is not mistaken for another one that is given its number.
type watched struct {
	*os.Process
	id process.ID
}

func pinOf(pid int) (watched, error) {
	p, err := os.FindProcess(pid)
	return watched{p, process.Of(pid)}, err
}

// gone tells whether it has ended; a zombie has.
func (w watched) gone() bool {
	fields := stat(w.Pid)
	return !w.id.Alive() || len(fields) == 0 || fields[0] == "Z" || fields[0] == "X"
}
