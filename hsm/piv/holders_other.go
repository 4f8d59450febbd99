//go:build !linux

package piv

// holders is known on Linux only.
func holders() []string { return nil }
