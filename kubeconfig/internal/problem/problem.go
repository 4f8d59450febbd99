// Package problem holds what the errors of package kubeconfig and of those below
// it are made of. They carry a next step as those of package hsm do, which
// kubeconfig does not import.
package problem

import "fmt"

// Input is an input that cannot be right, found before anything was sent.
type Input struct {
	// Field names it.
	Field string
	// Problem says what is wrong with it.
	Problem string

	hint string
}

// BadInput is an *[Input]; hint, which may be empty, says what would be right.
func BadInput(field, hint, format string, args ...any) error {
	return &Input{Field: field, Problem: fmt.Sprintf(format, args...), hint: hint}
}

func (e *Input) Error() string { return e.Field + ": " + e.Problem }

// Hint says what would be right; it may be empty.
func (e *Input) Hint() string { return e.hint }

// hinted is an error with a next step.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }
func (e *hinted) Hint() string  { return e.hint }

// Hintf is err with a next step; the error's text stays as it is.
func Hintf(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}
