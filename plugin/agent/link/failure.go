package link

import (
	"context"
	"errors"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Failure is an error as it crosses a connection.
type Failure struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Busy says who holds a card, where that is the error.
	Busy *hsm.BusyError `json:"busy,omitempty"`
}

// Codes name the sentinels that cross a connection, beside those of hsm and context.
// A code that one end does not know is kept for the next.
type Codes map[string]error

// unknown is a code that this process has no sentinel for.
type unknown string

func (u unknown) Error() string { return string(u) }

// common are the codes at every end.
func common() Codes {
	return Codes{"context-canceled": context.Canceled, "deadline-exceeded": context.DeadlineExceeded}
}

// maxText bounds text that may be a server's, in bytes. An error repeats the names of a certificate, which may take
// 200 KB, and an answer of more than [wire.MaxJSON] is not sent at all. A status has such texts by the hundred.
const maxText = 1 << 10

// Short is text as it fits into an answer.
func Short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// Failure makes err fit to be sent.
func (c Codes) Failure(err error) *Failure {
	f := &Failure{Code: hsm.ErrorCode(err), Message: Short(err.Error()), Hint: Short(hinting.Of(err))}
	f.Busy, _ = errors.AsType[*hsm.BusyError](err)
	for _, codes := range []Codes{c, common()} {
		for code, sentinel := range codes {
			if f.Code == "" && errors.Is(err, sentinel) {
				f.Code = code
			}
		}
	}
	if u, ok := errors.AsType[unknown](err); ok && f.Code == "" {
		f.Code = string(u)
	}
	return f
}

// Error rebuilds the error: same text, sentinel and hint.
func (c Codes) Error(f *Failure) error {
	for _, codes := range []Codes{c, common()} {
		if sentinel, ok := codes[f.Code]; ok {
			return hinting.With(remote{f.Message, sentinel}, f.Hint)
		}
	}
	if f.Busy != nil {
		return hinting.With(remote{f.Message, f.Busy}, f.Hint)
	}
	err := hsm.FromCode(f.Code, f.Message, f.Hint)
	if f.Code != "" && hsm.ErrorCode(err) == "" {
		err = hinting.With(remote{f.Message, unknown(f.Code)}, f.Hint)
	}
	return err
}

type remote struct {
	message string
	is      error
}

func (e remote) Error() string { return e.message }
func (e remote) Unwrap() error { return e.is }
