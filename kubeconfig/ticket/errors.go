package ticket

import (
	"errors"
	"fmt"
)

// What is wrong with a ticket; test with errors.Is. No error quotes the text,
// which holds a secret.
var (
	// ErrMalformed: the text is no ticket.
	ErrMalformed = errors.New("not a ticket")
	// ErrChecksum: the text is a ticket with a character that is wrong, missing
	// or too many.
	ErrChecksum = errors.New("a character of the ticket is wrong or missing")
	// ErrVersion: the ticket is of a version that this program does not know.
	ErrVersion = errors.New("the ticket is of another version of kubehsm")
	// ErrExpired: the ticket's time is up.
	ErrExpired = errors.New("the ticket has expired")
)

// InputError is a field that a ticket cannot have.
type InputError struct {
	// Field names it: "user", "policy".
	Field string
	// Problem says what is wrong with it.
	Problem string

	hint string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Hint says what would be right; it may be empty.
func (e *InputError) Hint() string { return e.hint }

func badInput(field, hint, format string, args ...any) error {
	return &InputError{Field: field, Problem: fmt.Sprintf(format, args...), hint: hint}
}

// hinted carries a next step, as the hsm package's errors do; this package
// imports none of ours above kubeconfig.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }
func (e *hinted) Hint() string  { return e.hint }

func withHint(err error, hint string) error { return &hinted{err, hint} }
