package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/text"
)

// The exit codes of the program. Scripts rely on them: they do not change.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2   // unknown command or flag, missing or malformed argument
	ExitNoToken     = 3   // the token is not there
	ExitPIN         = 4   // PIN wrong, blocked, not set or unusable
	ExitNoTerminal  = 5   // a person had to be asked and could not be
	ExitTimedOut    = 124 // timeout(1)'s code
	ExitInterrupted = 130 // ctrl-c, or a declined question; 128 + SIGINT
)

// UsageError says that the command line was wrong.
type UsageError struct {
	Err error
	// Help names what to run to see the right form, as "kubehsm enroll --help".
	Help string
}

// Usagef returns a [*UsageError] without Help.
func Usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Hint points to the help, unless the error itself knows better.
func (e *UsageError) Hint() string {
	if h := hinting.Of(e.Err); h != "" {
		return h
	}
	if e.Help == "" {
		return ""
	}
	return fmt.Sprintf("run `%s` to see how it is used", e.Help)
}

// ExitCode returns the exit code for err; 0 for nil.
func ExitCode(err error) int {
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	var usage *UsageError
	var input interface{ Argument() string } // a malformed argument, as package csr finds it
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage), errors.As(err, &input), is(hsm.ErrBadURI):
		return ExitUsage
	case is(hsm.ErrNoToken, hsm.ErrRemoved):
		return ExitNoToken
	case is(hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINNotSet, hsm.ErrPINInvalid):
		return ExitPIN
	case is(hsm.ErrNoTerminal, hsm.ErrPINRequired):
		return ExitNoTerminal
	case is(hsm.ErrCancelled, context.Canceled):
		return ExitInterrupted
	case is(hsm.ErrTouchTimeout, context.DeadlineExceeded, os.ErrDeadlineExceeded), timeout(err):
		return ExitTimedOut
	}
	return ExitFailed
}

// timeout recognizes the timeouts of the net package.
func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// plainWords replaces the library's words that mean nothing to a person.
var plainWords = strings.NewReplacer(
	"context canceled", "cancelled",
	"interrupt signal received", "cancelled", // the cause that package interrupt gives
	"terminated signal received", "terminated",
	"context deadline exceeded", "timed out",
)

// Message returns err's text, cleaned, without its hint. It may have several lines.
func Message(err error) string {
	if err == nil {
		return ""
	}
	msg := text.CleanLines(plainWords.Replace(err.Error()))
	if strings.TrimSpace(msg) == "" {
		return fmt.Sprintf("unknown error (%T)", err)
	}
	return msg
}

// Hint returns the hint of err, cleaned to one line, or "".
func Hint(err error) string { return text.Clean(hinting.Of(err)) }

// Details returns what err carries beside its message, "" if nothing: lines to
// paste, such as what to send to an admin. Errors give them with Details or,
// where a right is missing, Grant.
func Details(err error) string {
	var d interface{ Details() string }
	var g interface{ Grant() string }
	switch {
	case errors.As(err, &d):
		return text.CleanLines(d.Details())
	case errors.As(err, &g):
		return text.CleanLines(g.Grant())
	}
	return ""
}

// Report writes err as an "error:" line and, if it has a hint, a "hint:" line.
// Further lines of either are indented; details follow as they are. Nothing is written for nil. Where the
// words cannot be written there is nobody to tell.
func Report(w io.Writer, err error) {
	if err == nil {
		return
	}
	out := "error: " + strings.ReplaceAll(Message(err), "\n", "\n  ") + "\n"
	if h := Hint(err); h != "" {
		out += "hint: " + h + "\n"
	}
	if d := Details(err); d != "" {
		out += "\n" + strings.TrimRight(d, "\n") + "\n"
	}
	_, _ = io.WriteString(w, out)
}
