//go:build !windows

package consent

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CommandOf is the name of a program that runs, as a plain word or quoted, since the
// program chooses it; "" where the system does not tell.
func CommandOf(pid int) string {
	if pid <= 0 {
		return ""
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // Linux has it (proc_pid_comm(5))
	if err != nil {
		return ""
	}
	return Word(whole(strings.TrimSuffix(string(b), "\n"), pid))
}

// The kernel keeps maxComm bytes of a program's name; no file's is longer than
// maxFileName.
const (
	maxComm     = 15
	maxFileName = 255
)

// whole completes a name that the kernel may have cut, from the program's file or script if its
// name begins so.
func whole(name string, pid int) string {
	if len(name) != maxComm {
		return name
	}
	proc := "/proc/" + strconv.Itoa(pid)
	var files []string
	if exe, err := os.Readlink(proc + "/exe"); err == nil { // the path is not the program's choice, as its arguments are
		files = append(files, strings.TrimSuffix(exe, " (deleted)"))
	}
	if f, err := os.Open(proc + "/cmdline"); err == nil {
		b, _ := io.ReadAll(io.LimitReader(f, 1<<13)) // a part is good enough
		_ = f.Close()
		args := strings.SplitN(string(b), "\x00", 3)
		files = append(files, args[:min(len(args), 2)]...) // a script's interpreter comes first
	}
	for _, file := range files {
		if base := filepath.Base(file); strings.HasPrefix(base, name) && len(base) <= maxFileName {
			return base
		}
	}
	return name
}
