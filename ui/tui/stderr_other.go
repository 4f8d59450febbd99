//go:build !unix

package tui

func keepStderr() (restore func(show bool) error, err error) {
	return func(bool) error { return nil }, nil
}
