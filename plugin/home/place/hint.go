package place

import "fmt"

// hinted is an error with the next step, as package hsm's, which reads it. That
// package links what must not be initialised before kubectl is answered.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// Hint is what [hsm.Hint] returns.
func (e hinted) Hint() string { return e.hint }

func withHint(err error, format string, args ...any) error {
	return hinted{err, fmt.Sprintf(format, args...)}
}
