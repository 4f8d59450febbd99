// Package hint attaches the next step to an error. Everybody may import it: it
// links nothing but fmt and errors, so that what answers kubectl first has it too.
package hint

import (
	"errors"
	"fmt"
	"runtime"
)

// With attaches the next step that helps with err: one line, lower case, without a
// final stop. A nil err or an empty hint is returned as it is; the text of the error
// stays.
func With(err error, hint string) error {
	if err == nil || hint == "" {
		return err
	}
	return &hinted{error: err, hint: hint}
}

// Withf is [With] with a format.
func Withf(err error, format string, args ...any) error {
	return With(err, fmt.Sprintf(format, args...))
}

// Of returns the outermost hint in err's chain, or "".
func Of(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// PerOS is the one of three hints that suits the system this program runs on.
func PerOS(linux, darwin, windows string) string {
	switch runtime.GOOS {
	case "darwin":
		return darwin
	case "windows":
		return windows
	}
	return linux
}

type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }
func (e *hinted) Hint() string  { return e.hint }
