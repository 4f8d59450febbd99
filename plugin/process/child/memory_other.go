//go:build !linux

package child

// LockMemory: nothing is done here.
func LockMemory() error { return nil }

// Memory is not known here.
func Memory(int) uint64 { return 0 }
