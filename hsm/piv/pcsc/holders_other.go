//go:build !linux

package pcsc

// holders is known on Linux only.
func holders() []string { return nil }
