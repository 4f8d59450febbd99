package main

import (
	"encoding/json"
	"os"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// recordSelf writes to file which process this is, so that `down` finds it.
func recordSelf(file string) error {
	self, err := controlplane.Identify(os.Getpid())
	if err != nil {
		return err
	}
	b, err := json.Marshal(self)
	if err != nil {
		return err
	}
	return replace(file, b, 0o600)
}

// replace puts content in the place of the file in one step.
func replace(file string, content []byte, mode os.FileMode) error {
	if err := os.WriteFile(file+".new", content, mode); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// recorded returns the process that file names; the zero Ident, which never
// lives, if it names none.
func recorded(file string) controlplane.Ident {
	var id controlplane.Ident
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &id) != nil {
		return controlplane.Ident{}
	}
	return id
}
