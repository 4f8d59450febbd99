package wire

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// maxPath is the shortest limit of the systems we know (macOS, sun_path).
const maxPath = 103

// ErrPath says that no socket can have that name here.
var ErrPath = errors.New("the socket's path is too long")

// WithPath calls f with a name of the socket at path that is short enough to
// bind and connect to. On Linux a long one is reached through its opened
// folder; elsewhere it is [ErrPath].
func WithPath(path string, f func(string) error) error {
	if len(path) <= maxPath {
		return f(path)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrPath, path, maxPath)
	}
	last := strings.LastIndexByte(path, '/')
	dir, err := os.Open(path[:max(last, 1)])
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path[last+1:]))
}
