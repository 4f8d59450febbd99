//go:build !windows

package consent

import (
	"os"
	"strconv"
	"strings"
)

// The notes.
const (
	replaced = "replaced since it was started"
	removed  = "removed since it was started"
	inMemory = "no file on disk"
	another  = "not the file at that path here: it runs in a container, or in a namespace of its own"
)

// ProgramOf is the program that a process runs (proc_pid_exe(5)). The path is one in the
// process's own mount namespace, so the file at that path here is compared with the one
// that runs. Where they differ, a note says so.
func ProgramOf(pid int) Program {
	if pid <= 0 {
		return Program{}
	}
	exe := "/proc/" + strconv.Itoa(pid) + "/exe"
	path, err := os.Readlink(exe)
	if err != nil {
		return Program{}
	}
	runs, err := os.Stat(exe)
	if err != nil {
		return Program{}
	}
	at := func(path string) (there, same bool) {
		f, err := os.Stat(path)
		return err == nil, err == nil && os.SameFile(f, runs)
	}
	there, same := at(path)
	if same {
		return Program{Path: path}
	}
	name, gone := strings.CutSuffix(path, " (deleted)") // the kernel's word; a file may have that name, too
	switch {
	case !gone || there:
		return Program{path, another}
	case strings.HasPrefix(name, "/memfd:"):
		return Program{name, inMemory}
	}
	if there, _ = at(name); there {
		return Program{name, replaced}
	}
	return Program{name, removed}
}
