package consent

import "path/filepath"

// Program is what the system knows of the file that a process runs. The process chooses
// neither the path nor whether the file is there.
type Program struct {
	// Path is where the file is, as Linux and Windows tell it; "" where the system does not.
	Path string `json:"path,omitempty"`
	// Note says why what is at Path now is not the file that runs, "" if it is.
	Note string `json:"note,omitempty"`
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

// Named reports whether a program that calls itself so adds nothing to its path.
func (p Program) Named(itself string) bool {
	return itself == "" || p.Path != "" && itself == Word(filepath.Base(p.Path))
}
