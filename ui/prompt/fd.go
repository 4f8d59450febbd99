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

// FD answers the prompts for the PIN in force with one line read from descriptor fd,
// which the parent process has opened (--pin-fd). next is asked everything else: touches,
// confirmations, and prompts for other secrets, new PINs included. See [SecretFD].
func FD(fd int, next ask.Func) (p ask.Func, done func()) {
	return SecretFD("--pin-fd", fd, func(p hsm.PINPrompt) bool {
		return !p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN)
	}, next)
}

// SecretFD is [FD] for the prompts that serves picks; flag is what the user named the
// descriptor with. It is read, and closed, at the first such prompt and serves the later
// ones until done is called, which overwrites the secret; once it was refused it is never
// given again, so that a wrong PIN costs a single try. Errors: [hsm.ErrPINIncorrect] when
// asked again after a refusal, [hsm.ErrPINInvalid] if the descriptor holds no PIN.
func SecretFD(flag string, fd int, serves func(hsm.PINPrompt) bool, next ask.Func) (p ask.Func, done func()) {
	f := &fdSecret{flag: flag, fd: fd}
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.PIN == nil || !serves(*q.PIN) {
			return next(ctx, q)
		}
		pin, err := f.answer(*q.PIN)
		return ask.Answer{PIN: pin, Given: true}, err
	}, f.forget
}

type fdSecret struct {
	flag string

	mu      sync.Mutex
	fd      int
	read    bool
	secret  *hsm.Secret
	refused bool
	err     error
}

func (f *fdSecret) answer(p hsm.PINPrompt) (*hsm.Secret, error) {
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

func (f *fdSecret) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secret.Zero()
	f.read, f.err = true, os.ErrClosed
}

type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }
func (e *refusedError) Unwrap() error { return hsm.ErrPINIncorrect }

func readFD(flag string, fd int) (*hsm.Secret, error) {
	file := os.NewFile(uintptr(fd), flag)
	if file == nil {
		return nil, fmt.Errorf("%s: %d is not a file descriptor", flag, fd)
	}
	defer file.Close()
	s, err := hsm.ReadSecret(file, make([]byte, maxSecret))
	if err != nil {
		return nil, hinting.Withf(fmt.Errorf("%s: reading from descriptor %d: %w", flag, fd, err),
			"open it in the shell: kubehsm … %s %d %d< <(print-it)", flag, fd, fd)
	}
	return s, nil
}
