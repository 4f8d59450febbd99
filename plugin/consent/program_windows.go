package consent

import (
	"path/filepath"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// CommandOf is the name of a program that runs, that of its file, as a plain word or quoted;
// "" where the system does not tell.
func CommandOf(pid int) string {
	if path := process.Image(pid); path != "" {
		return Word(filepath.Base(path))
	}
	return ""
}

// ProgramOf is the program that a process runs. Windows keeps the file in place while it does.
func ProgramOf(pid int) Program { return Program{Path: process.Image(pid)} }
