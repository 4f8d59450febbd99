package ticket

import (
	"errors"

	"github.com/kubehsm/kubehsm/kubeconfig/internal/problem"
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
	// ErrTerms: a token has the groups of a ticket's terms, but not as one was made.
	ErrTerms = errors.New("the ticket's terms cannot be read")
)

// InputError is a field that a ticket cannot have; its Field is "user" or "policy", say.
type InputError = problem.Input
