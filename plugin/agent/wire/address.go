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
// bind and connect to. On Linux one in a folder with a long path is reached
// through the opened folder; elsewhere, and if the file's name alone is too long,
// the error wraps [ErrPath].
func WithPath(path string, f func(string) error) error {
	if len(path) <= maxPath {
		return f(path)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrPath, path, maxPath)
	}
	folder, name := ".", path
	if last := strings.LastIndexByte(path, '/'); last >= 0 {
		folder, name = path[:max(last, 1)], path[last+1:]
	}
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	if len(short) > maxPath {
		return fmt.Errorf("%w: no more than %d bytes of it can be its file's name", ErrPath, maxPath-(len(short)-len(name)))
	}
	return f(short)
}
