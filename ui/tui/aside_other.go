//go:build !unix

package tui

// setAside does nothing here: libraries have no standard error of their own to
// write across the screen in a console program.
func setAside(func() (string, error)) (restore func() error, err error) {
	return func() error { return nil }, nil
}
