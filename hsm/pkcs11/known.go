//go:build cgo

package pkcs11

import "github.com/kubehsm/kubehsm/hsm"

// Knows tells whether the module at path is one of those that the options name
// or that are discovered: code that the user or the system vouches for, unlike
// a path that somebody else's file gives.
func (d *Driver) Knows(path string) bool {
	modules, _ := d.candidates(hsm.URI{})
	for _, m := range modules {
		if realPath(m.Path) == realPath(path) {
			return true
		}
	}
	return false
}
