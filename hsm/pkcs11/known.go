//go:build cgo

package pkcs11

import "sync"

// Knows tells whether the module at path is one of those that the options name
// or that are discovered: code that the user or the system vouches for, unlike
// a path that somebody else's file gives.
func (d *Driver) Knows(path string) bool {
	where := sync.OnceValue(standardPlaces)
	_, own, proxied := d.own(where)
	return len(own) > 0 && own[realPath(path)] || d.options.Discover && !proxied && where().has(path)
}
