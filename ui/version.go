package ui

import "runtime/debug"

// version is set by the linker for releases.
var version string

// Version is this build's version.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); version == "" && ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return version
}
