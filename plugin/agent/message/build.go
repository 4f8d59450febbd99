package message

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// ThisBuild describes the program that runs.
func ThisBuild(version string) (wire.Build, error) {
	path, err := os.Executable()
	if err != nil {
		return wire.Build{}, err
	}
	file := path
	if runtime.GOOS == "linux" {
		file = "/proc/self/exe" // even if the path leads to another file by now
	}
	return BuildOf(path, file, version)
}

// BuildOf describes the program called path, which is in file.
func BuildOf(path, file, version string) (wire.Build, error) {
	info, err := os.Stat(file)
	if err != nil {
		return wire.Build{}, fmt.Errorf("looking at this program: %w", err)
	}
	return wire.Build{Version: version, Path: Resolve(path), Size: info.Size(), Modified: info.ModTime().UTC()}, nil
}

// Resolve follows symbolic links; the name of a file that was removed is good enough.
func Resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
