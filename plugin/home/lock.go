package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Lock is the lock file at path, in a folder of [MakeDir]'s. The system frees the lock
// whatever becomes of its holder; the file stays, as to remove it would let two others
// lock two different files. What is no file, as a symbolic link, is refused.
func Lock(path string) (filelock.Lock, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return filelock.Lock{}, err
	case !info.Mode().IsRegular():
		return filelock.Lock{}, hint.With(fmt.Errorf("%s is there already and is not a regular file", path),
			"remove it: kubehsm makes a lock file there")
	}
	return filelock.New(path), nil
}
