package hsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"unsafe"
)

// Secret is a PIN, a PUK, a management key or the like. It prints as
// "[redacted]" in every format, marshals to the same, and is overwritten by
// [Secret.Zero]. Pass it by pointer; a nil Secret is empty. The bytes are held
// by a closure, which no printer looks into: fmt follows pointers of unexported
// fields for verbs that do not fit, and calls no methods there.
type Secret struct{ held func() *[]byte }

const redacted = "[redacted]"

// hardened is [Harden], once. A system that refuses it, such as a sandbox, must not keep a person from
// signing in.
var hardened = sync.OnceValue(Harden)

// Guard makes ready for a secret to be read into b and its capacity: the memory is kept out of
// swap where the system allows, and this process is closed to the user's others, see [Harden].
func Guard(b []byte) {
	_ = hardened()
	keepInRAM(b)
}

// NewSecret takes ownership of b: the caller must not use it any more. Whoever reads a secret
// calls [Guard] before; else this does.
func NewSecret(b []byte) *Secret {
	Guard(b)
	return &Secret{held: func() *[]byte { return &b }}
}

// pasteMarks are what a terminal puts around a paste for a program that has asked for it.
// One that has ended without turning that off leaves them to the next.
var pasteMarks = [][]byte{[]byte("\x1b[200~"), []byte("\x1b[201~")}

// NewTyped is [NewSecret] for what a person has typed or pasted. It drops the marks that a
// terminal puts around a paste.
func NewTyped(b []byte) *Secret {
	for _, mark := range pasteMarks {
		for at := bytes.Index(b, mark); at >= 0; at = bytes.Index(b, mark) {
			rest := copy(b[at:], b[at+len(mark):])
			clear(b[at+rest:])
			b = b[:at+rest]
		}
	}
	return NewSecret(b)
}

// Bytes returns the secret itself, not a copy. It is invalid after [Secret.Zero].
func (s *Secret) Bytes() []byte {
	if s == nil || s.held == nil {
		return nil
	}
	return *s.held()
}

// Unsafe returns the secret as a string that shares its memory, for C libraries'
// wrappers that take a string: an ordinary conversion would leave a copy that
// cannot be overwritten. The string must not be kept beyond the call and is
// invalid after [Secret.Zero].
func (s *Secret) Unsafe() string {
	b := s.Bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Len returns the length in bytes.
func (s *Secret) Len() int { return len(s.Bytes()) }

// Clone returns a copy with memory of its own, to be zeroed on its own.
func (s *Secret) Clone() *Secret {
	c := NewSecret(make([]byte, s.Len()))
	copy(c.Bytes(), s.Bytes())
	return c
}

// Zero overwrites the secret and empties it. It may be called more than once.
func (s *Secret) Zero() {
	if s == nil || s.held == nil {
		return
	}
	b := s.held()
	clear((*b)[:cap(*b)])
	*b = nil
}

// String implements [fmt.Stringer] without the secret.
func (s *Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer] without the secret.
func (s *Secret) GoString() string { return redacted }

// Format implements [fmt.Formatter]: no verb prints the secret.
func (s *Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText implements [encoding.TextMarshaler] without the secret.
func (s *Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements [slog.LogValuer] without the secret.
func (s *Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// ReadSecret reads the first line of r into buf, byte by byte: what follows it
// is not ours. The secret keeps buf. Errors: [ErrPINInvalid] if the line is empty
// or does not fit; those of r.
func ReadSecret(r io.Reader, buf []byte) (*Secret, error) {
	Guard(buf)
	for n := 0; n < len(buf); {
		k, err := r.Read(buf[n : n+1])
		switch {
		case k == 1 && buf[n] == '\n', errors.Is(err, io.EOF) && k == 0:
			if n > 0 && buf[n-1] == '\r' {
				n--
			}
			if n == 0 {
				return nil, fmt.Errorf("%w: it is empty", ErrPINInvalid)
			}
			return NewTyped(buf[:n]), nil
		case err != nil && !errors.Is(err, io.EOF):
			clear(buf)
			return nil, err
		}
		n += k
	}
	clear(buf)
	return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrPINInvalid, len(buf)-1)
}
