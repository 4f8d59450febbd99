package hsm

import (
	"errors"
	"fmt"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The errors that every driver and prompter uses, wrapped with what happened.
// Callers compare with [errors.Is].
var (
	ErrNoToken       = errors.New("no such token")
	ErrDenied        = fmt.Errorf("%w: the smart card service refuses this user", ErrNoToken)
	ErrSeveralTokens = errors.New("several tokens match")
	ErrNoKey         = errors.New("no such key")
	ErrSeveralKeys   = errors.New("several keys match")
	ErrNoCertificate = errors.New("no such certificate")
	ErrOccupied      = errors.New("the slot is occupied")
	ErrKeyMismatch   = errors.New("the key in the slot is not the one on record")
	ErrPINIncorrect  = errors.New("wrong PIN")
	ErrPINLocked     = errors.New("the PIN is blocked")
	ErrPINNotSet     = errors.New("no PIN has been set")
	ErrPINRequired   = errors.New("a PIN is needed")
	ErrPINInvalid    = errors.New("not a usable PIN")
	ErrNoTerminal    = errors.New("no terminal to ask on")
	ErrCancelled     = errors.New("cancelled")
	ErrTouchTimeout  = errors.New("the token was not touched in time")
	ErrBusy          = errors.New("the token is in use by another program")
	ErrRemoved       = errors.New("the token was removed")
	ErrDisconnected  = fmt.Errorf("%w: the connection to its server was lost", ErrRemoved) // the login is gone, too
	ErrModule        = errors.New("the token's driver library failed")
	ErrFull          = errors.New("the token is full")
	ErrUnsupported   = errors.New("not supported by this token")
	ErrUnavailable   = errors.New("not available in this build")
	ErrBadURI        = errors.New("malformed token URI")
	ErrPending       = errors.New("no answer yet") // the reading still goes on
)

// codes name the sentinels where an error crosses a process boundary.
var codes = []struct {
	code string
	err  error
}{
	{"denied", ErrDenied}, {"no-token", ErrNoToken}, {"several-tokens", ErrSeveralTokens},
	{"no-key", ErrNoKey}, {"several-keys", ErrSeveralKeys},
	{"no-certificate", ErrNoCertificate}, {"occupied", ErrOccupied},
	{"key-mismatch", ErrKeyMismatch}, {"pin-incorrect", ErrPINIncorrect},
	{"pin-locked", ErrPINLocked}, {"pin-not-set", ErrPINNotSet},
	{"pin-required", ErrPINRequired}, {"pin-invalid", ErrPINInvalid},
	{"no-terminal", ErrNoTerminal}, {"cancelled", ErrCancelled},
	{"touch-timeout", ErrTouchTimeout}, {"busy", ErrBusy},
	{"disconnected", ErrDisconnected}, {"removed", ErrRemoved}, {"module", ErrModule}, {"full", ErrFull},
	{"unsupported", ErrUnsupported}, {"unavailable", ErrUnavailable},
	{"bad-uri", ErrBadURI},
}

// ErrorCode returns the stable name of the sentinel that err wraps, or "".
func ErrorCode(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return ""
}

// FromCode rebuilds an error from what [ErrorCode], Error and [hinting.Of] gave in
// another process: its text is message, it wraps the sentinel that code names
// (if any) and carries hint (if not empty).
func FromCode(code, message, hint string) error {
	err := error(worded{message: message})
	for _, c := range codes {
		if c.code == code {
			err = worded{message: message, is: c.err}
		}
	}
	return hinting.With(err, hint)
}

// worded is a sentinel error with a message of its own.
type worded struct {
	message string
	is      error
}

func (e worded) Error() string { return e.message }
func (e worded) Unwrap() error { return e.is }

// Unfit says that what was typed cannot be a secret of that kind, and why. It wraps
// [ErrPINInvalid].
func Unfit(kind PINKind, format string, args ...any) error {
	if kind == "" || kind == PIVPIN {
		kind = UserPIN
	}
	return worded{"not a usable " + string(kind) + ": " + fmt.Sprintf(format, args...), ErrPINInvalid}
}

// PINError says that a PIN was refused and how many tries are left. It wraps
// [ErrPINIncorrect], or [ErrPINLocked] when Retries is 0.
type PINError struct {
	Kind    PINKind
	Retries int // tries left; -1 unknown
}

func (e *PINError) Error() string {
	switch {
	case e.Retries == 0:
		return fmt.Sprintf("wrong %s: it is blocked now", e.Kind)
	case e.Retries > 0:
		return fmt.Sprintf("wrong %s: %s", e.Kind, TriesLeft(e.Retries))
	}
	return fmt.Sprintf("wrong %s", e.Kind)
}

// Hint is what to do about a PIN that is blocked now, else "".
func (e *PINError) Hint() string {
	switch {
	case e.Retries != 0:
	case e.Kind == PIVPIN:
		return unblockWith(PUK)
	case e.Kind == UserPIN:
		return unblockWith(SOPIN)
	}
	return ""
}

// TriesLeft is a number of tries in words.
func TriesLeft(n int) string {
	if n == 1 {
		return "1 try left"
	}
	return fmt.Sprintf("%d tries left", n)
}

// Unwrap returns the sentinel that fits.
func (e *PINError) Unwrap() error {
	if e.Retries == 0 {
		return ErrPINLocked
	}
	return ErrPINIncorrect
}
