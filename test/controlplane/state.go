package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// stateFile is the name of a cluster's record in its folder.
const stateFile = "cluster.json"

// state is what is known of a cluster beyond the process that started it.
type state struct {
	Bin       string           `json:"bin"`
	Ports     ports            `json:"ports"`
	Options   Options          `json:"options"`
	Processes map[string]Ident `json:"processes"`
	// Added are further API servers.
	Added map[Component]AddedAPIServer `json:"added,omitempty"`
}

// readState returns the record in dir; [os.ErrNotExist] says that there is none.
func readState(dir string) (state, error) {
	var s state
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	return s, nil
}

func (s state) write(dir string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, stateFile), append(b, '\n'))
}

// replaceFile puts content in place of the file at path in one step; only the
// owner can read it.
func replaceFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
