//go:build unix && !linux

package prompt

// lockless does nothing: this system's kernel does not refuse locks for a test.
func lockless() {}
