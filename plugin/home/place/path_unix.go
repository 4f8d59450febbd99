//go:build unix

package place

import "path"

// Here the two packages agree, and path/filepath is initialized after most of
// the program.
func isAbs(p string) bool         { return path.IsAbs(p) }
func clean(p string) string       { return path.Clean(p) }
func join(parts ...string) string { return path.Join(parts...) }

const absHint = "write it with a leading /"

// The variables and default folders of the XDG Base Directory Specification.
const (
	homeVar      = "HOME"
	configVar    = "XDG_CONFIG_HOME"
	configFolder = ".config"
	stateVar     = "XDG_STATE_HOME"
	stateFolder  = ".local/state"
	runVar       = "XDG_RUNTIME_DIR"
)
