package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gofrs/flock"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Lock is the lock file at path, in a folder of [MakeDir]'s. The system frees the lock
// whatever becomes of its holder; the file stays, as to remove it would let two others
// lock two different files. What is no file, as a symbolic link, is refused.
func Lock(path string) (*flock.Flock, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, hint.With(fmt.Errorf("%s is there already and is not a regular file", path),
			"remove it: kubehsm makes a lock file there")
	}
	return flock.New(path, flock.SetPermissions(0o600)), nil
}
