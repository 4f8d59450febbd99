//go:build !unix

package home

const absHint = `begin it with the drive, as in C:\Users\me\kubehsm`

// Windows' variables and default folders. What is in APPDATA may follow the user to
// another machine, and what is in LOCALAPPDATA stays. No folder goes at logout.
const (
	homeVar      = "USERPROFILE"
	configVar    = "APPDATA"
	configFolder = `AppData\Roaming`
	stateVar     = "LOCALAPPDATA"
	stateFolder  = `AppData\Local`
	runVar       = ""
)
