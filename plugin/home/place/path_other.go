//go:build !unix

package place

import "path/filepath"

func isAbs(p string) bool         { return filepath.IsAbs(p) }
func clean(p string) string       { return filepath.Clean(p) }
func join(parts ...string) string { return filepath.Join(parts...) }
