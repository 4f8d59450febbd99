//go:build !unix

package child

// Harden: nothing is known to help here.
func Harden() error { return nil }

// LockMemory: nothing is done here.
func LockMemory() error { return nil }

// Memory is not known here.
func Memory(int) uint64 { return 0 }
