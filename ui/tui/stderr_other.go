//go:build !unix

package tui

// keepStderr does nothing here.
func keepStderr() (give func(show bool) error, err error) {
	return func(bool) error { return nil }, nil
}
