package home

import "github.com/kubehsm/kubehsm/plugin/home/place"

// Dirs are the folders. All are absolute.
type Dirs = place.Dirs

// EnvHome is the environment variable that puts everything under one folder.
const EnvHome = place.EnvHome

// ErrUnsafe says that somebody else could change a file or folder we rely on.
var ErrUnsafe = place.ErrUnsafe

// FromEnv is [place.FromEnv].
func FromEnv(getenv func(string) string) (Dirs, error) { return place.FromEnv(getenv) }

// MakeDir is [place.MakeDir].
func MakeDir(dir string) error { return place.MakeDir(dir) }

// CheckFile is [place.CheckFile].
func CheckFile(path string) error { return place.CheckFile(path) }

// ReadFile is [place.ReadFile].
func ReadFile(path string, most int64, buf []byte) ([]byte, error) {
	return place.ReadFile(path, most, buf)
}
