//go:build !unix

package atomicfile

// SyncDir does nothing: folders cannot be synced here.
func SyncDir(string) error { return nil }
