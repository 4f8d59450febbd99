//go:build cgo

package pkcs11

import (
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

// Knows tells whether the module at path is one of those that the options name
// or that are discovered: code that the user or the system vouches for, unlike
// a path that somebody else's file gives.
func (d *Driver) Knows(path string) bool {
	real := realPath(path)
	same := func(m Module) bool { return m.Path == path || realPath(m.Path) == real }
	if slices.ContainsFunc(d.options.Modules, same) { // without a look at the system
		return true
	}
	modules, _ := d.candidates(hsm.URI{})
	return slices.ContainsFunc(modules, same)
}
