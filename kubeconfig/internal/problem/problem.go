// Package problem holds the error of package kubeconfig and of those below it for an
// input that cannot be right.
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
