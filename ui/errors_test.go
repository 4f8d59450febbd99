package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{hsm.ErrSeveralTokens, 1},
		{hsm.ErrKeyMismatch, 1},
		{Usagef("no"), 2},
		{fmt.Errorf("wrapped: %w", Usagef("no: %w", hsm.ErrNoToken)), 2},
		{hsm.ErrBadURI, 2},
		{fmt.Errorf("opening: %w", hsm.ErrNoToken), 3},
		{hsm.ErrRemoved, 3},
		{&hsm.PINError{Retries: 2}, 4},
		{&hsm.PINError{Retries: 0}, 4},
		{hsm.ErrPINNotSet, 4},
		{hsm.ErrPINInvalid, 4},
		{hint.With(hsm.ErrNoTerminal, "h"), 5},
		{hsm.ErrPINRequired, 5},
		{context.DeadlineExceeded, 124},
		{hsm.ErrTouchTimeout, 124},
		{&url.Error{Op: "Get", URL: "u", Err: os.ErrDeadlineExceeded}, 124},
		{&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, 124},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, 1},
		{fmt.Errorf("asking: %w", hsm.ErrCancelled), 130},
		{context.Canceled, 130},
		{hsm.FromCode("pin-locked", "m", ""), 4},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("ExitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("no luck"), "error: no luck\n"},
		{hint.With(errors.New("no luck"), "try\nagain"), "error: no luck\nhint: try\\nagain\n"},
		{errors.Join(errors.New("one"), errors.New("two")), "error: one\n  two\n"},
		{errors.New("evil \x1b]0;t\x07 label\u202e"), `error: evil \x1b]0;t\x07 label\u202e` + "\n"},
		{errors.New(""), "error: unknown error (*errors.errorString)\n"},
		{fmt.Errorf("waiting: %w", context.Canceled), "error: waiting: cancelled\n"},
		{&UsageError{Err: errors.New("bad flag"), Help: "kubehsm enroll --help"},
			"error: bad flag\nhint: run `kubehsm enroll --help` to see how it is used\n"},
		{&UsageError{Err: hint.With(errors.New("bad"), "own"), Help: "x"}, "error: bad\nhint: own\n"},
	} {
		var b bytes.Buffer
		Report(&b, c.err)
		if b.String() != c.want {
			t.Errorf("Report(%v) wrote %q, want %q", c.err, b.String(), c.want)
		}
	}
}
