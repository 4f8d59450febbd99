//go:build unix

package home

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
