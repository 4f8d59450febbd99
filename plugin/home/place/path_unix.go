//go:build unix

package place

import "path"

// Here the two packages agree, and path/filepath is initialized after most of
// the program.
func isAbs(p string) bool         { return path.IsAbs(p) }
func clean(p string) string       { return path.Clean(p) }
func join(parts ...string) string { return path.Join(parts...) }
