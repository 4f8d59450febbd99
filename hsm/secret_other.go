//go:build !unix && !windows

package hsm

// KeepInRAM does nothing on this system.
func KeepInRAM([]byte) {}
