package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// thisBuild describes the program that runs.
func thisBuild(version string) (wire.Build, error) {
	path, err := os.Executable()
	if err != nil {
		return wire.Build{}, err
	}
	file := path
	if runtime.GOOS == "linux" {
		file = "/proc/self/exe" // even if the path leads to another file by now
	}
	return buildOf(path, file, version)
}

// buildOf describes the program called path, which is in file.
func buildOf(path, file, version string) (wire.Build, error) {
	info, err := os.Stat(file)
	if err != nil {
		return wire.Build{}, fmt.Errorf("looking at this program: %w", err)
	}
	return wire.Build{Version: version, Path: resolve(path), Size: info.Size(), Modified: info.ModTime().UTC()}, nil
}

// resolve follows symbolic links; the name of a file that was removed is good enough.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
