package consent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Program is what the system knows of the file that a process runs. The process chooses
// neither the path nor whether the file is there.
type Program struct {
	// Path is where the file is, as Linux tells it; "" where the system does not.
	Path string `json:"path,omitempty"`
	// Note says why what is at Path now is not the file that runs, "" if it is.
	Note string `json:"note,omitempty"`
}

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

// String is the program for a person to read.
func (p Program) String() string {
	switch {
	case p.Path == "":
		return "unknown: the system does not show which file the process runs"
	case p.Note == "":
		return Name(p.Path)
	}
	return Name(p.Path) + " (" + p.Note + ")"
}

// Named tells whether a program that calls itself so adds nothing to its path.
func (p Program) Named(itself string) bool {
	return itself == "" || p.Path != "" && itself == Word(filepath.Base(p.Path))
}
