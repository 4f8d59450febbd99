package prompt

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// Options say how [Choose] lets a person be asked.
type Options struct {
	// PINFD is the descriptor that a PIN is read from, or negative for none.
	PINFD int
	// Pinentry is the pinentry program of the user's own configuration, as a
	// path or a name on PATH; "" is none. It serves where there is no terminal
	// but a graphical session, or always with PreferPinentry.
	Pinentry       string
	PreferPinentry bool
	// Timeout bounds each prompt; 0 is [DefaultTimeout].
	Timeout time.Duration
	// Hint is the next step where nobody can be asked; "" names `kubehsm unlock`.
	Hint string
	// Notify is as in [TerminalOptions].
	Notify func(words string)
	// RunDir is an existing private folder for the lock that serialises prompts
	// on one terminal, and for the cool-down; "" does without both.
	RunDir string
	// CoolDown keeps a PIN prompt that was cancelled from coming back within
	// this time, for programs that a client starts over and over; 0 is off.
	CoolDown time.Duration
	// Terminal is a number that tells this window from others, for CoolDown.
	Terminal uint64
}

// Choose combines the prompters as the options say: a PIN from a descriptor
// first; then the terminal; then pinentry; [hsm.ErrNoTerminal] with a hint
// when none of them reaches a person. Call the returned function when done: it
// forgets a PIN that was read from a descriptor.
func Choose(o Options) (p hsm.Prompter, done func()) {
	done = func() {}
	terminal := NewTerminal(TerminalOptions{Timeout: o.Timeout, Hint: o.Hint, Notify: o.Notify, LockDir: o.RunDir})
	switch window := NewPinentry(o.Pinentry, o.Timeout); {
	case o.Pinentry == "":
		p = terminal
	case o.PreferPinentry:
		p = First(window, terminal)
	case graphical():
		p = First(terminal, window)
	default:
		p = terminal
	}
	if o.CoolDown > 0 && o.RunDir != "" {
		p = CoolDown(p, o.RunDir, o.CoolDown, o.Terminal)
	}
	if o.PINFD >= 0 {
		fd := NewFD(o.PINFD, p)
		return fd, func() { _ = fd.Close() }
	}
	return p, done
}

// Window asks by the pinentry program of the user's own configuration, for who
// has no terminal; nil if there is none or no graphical session.
func Window(pinentry string) hsm.Prompter {
	if pinentry == "" || !graphical() {
		return nil
	}
	return NewPinentry(pinentry, 0)
}

// graphical tells whether a window can be shown.
func graphical() bool {
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin" ||
		os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// First asks with the first prompter that does not return [hsm.ErrNoTerminal].
// A touch is shown by all of them. It panics without prompters.
func First(prompters ...hsm.Prompter) hsm.Prompter {
	if len(prompters) == 0 {
		panic("prompt.First: no prompters")
	}
	return first(prompters)
}

type first []hsm.Prompter

func (f first) PIN(ctx context.Context, p hsm.PINPrompt) (s *hsm.Secret, err error) {
	var none error
	for _, each := range f {
		if s, err = each.PIN(ctx, p); !errors.Is(err, hsm.ErrNoTerminal) {
			return s, err
		}
		none = errors.Join(none, err)
	}
	return nil, none
}

func (f first) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (yes bool, err error) {
	var none error
	for _, each := range f {
		if yes, err = each.Confirm(ctx, p); !errors.Is(err, hsm.ErrNoTerminal) {
			return yes, err
		}
		none = errors.Join(none, err)
	}
	return false, none
}

func (f first) Touch(ctx context.Context, p hsm.TouchPrompt) func() {
	dones := make([]func(), 0, len(f))
	for _, each := range f {
		dones = append(dones, each.Touch(ctx, p))
	}
	return sync.OnceFunc(func() {
		for _, done := range dones {
			done()
		}
	})
}
