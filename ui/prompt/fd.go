package prompt

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// FD answers the prompts for one secret with one line read from a file
// descriptor that the parent process has opened (--pin-fd and its like). It is
// read at the first such prompt and serves the later ones until [FD.Close]; once
// it was refused it is never given again, so that a wrong PIN costs a single
// try. Other questions go to the function it was made with.
type FD struct {
	next   ask.Func
	flag   string
	serves func(hsm.PINPrompt) bool

	mu      sync.Mutex
	fd      int
	read    bool
	secret  *hsm.Secret
	refused bool
	err     error
}

// NewFD returns what reads the PIN in force from descriptor fd and
// closes it after. next gets touches, confirmations, and prompts for anything
// else, new PINs included.
func NewFD(fd int, next ask.Func) *FD {
	return NewSecretFD("--pin-fd", fd, func(p hsm.PINPrompt) bool {
		return !p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN)
	}, next)
}

// NewSecretFD is [NewFD] for the prompts that serves picks; flag is what the
// user named the descriptor with.
func NewSecretFD(flag string, fd int, serves func(hsm.PINPrompt) bool, next ask.Func) *FD {
	return &FD{flag: flag, fd: fd, serves: serves, next: next}
}

// Ask is an [ask.Func]. Errors: [hsm.ErrPINIncorrect] when asked again
// after a refusal, [hsm.ErrPINInvalid] if the descriptor holds no PIN.
func (f *FD) Ask(ctx context.Context, q ask.Question) (ask.Answer, error) {
	if q.PIN == nil || !f.serves(*q.PIN) {
		return f.next(ctx, q)
	}
	pin, err := f.pin(*q.PIN)
	return ask.Answer{PIN: pin}, err
}

func (f *FD) pin(p hsm.PINPrompt) (*hsm.Secret, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.read {
		f.read = true
		f.secret, f.err = readFD(f.flag, f.fd)
	}
	if f.err != nil {
		return nil, f.err
	}
	hint := fmt.Sprintf("the %s came from %s and is tried only once", p.Kind, f.flag)
	if p.Again != "" {
		f.refused = true
		return nil, hinting.With(&refusedError{p.Again}, hint)
	}
	if f.refused {
		return nil, hinting.With(fmt.Errorf("%w: the one from %s was refused before", hsm.ErrPINIncorrect, f.flag), hint)
	}
	return f.secret.Clone(), nil
}

// Close overwrites the PIN. Prompts after it fail.
func (f *FD) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secret.Zero()
	f.read, f.err = true, os.ErrClosed
	return nil
}

// refusedError passes on the token's words for a refused PIN.
type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }
func (e *refusedError) Unwrap() error { return hsm.ErrPINIncorrect }

func readFD(flag string, fd int) (*hsm.Secret, error) {
	file := os.NewFile(uintptr(fd), flag)
	if file == nil {
		return nil, fmt.Errorf("%s: %d is not a file descriptor", flag, fd)
	}
	defer file.Close()
	buf := make([]byte, maxSecret)
	lockMemory(buf)
	s, err := hsm.ReadSecret(file, buf)
	if err != nil {
		return nil, hinting.Withf(fmt.Errorf("%s: reading from descriptor %d: %w", flag, fd, err), "open it in the shell: kubehsm … %s %d %d< <(print-it)", flag, fd, fd)
	}
	return s, nil
}
