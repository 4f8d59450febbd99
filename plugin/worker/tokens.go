package worker

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
)

// Options say how workers are run.
type Options struct {
	// Exe is this program's absolute path, run as `Exe agent worker`. On Linux it is this
	// very program that runs, even if the file was replaced.
	Exe string
	// Codes name the caller's own errors, which prompts may return through a worker.
	Codes link.Codes
	// Dismissed is the error of what a worker was at when it was told to end; nil is one
	// that says just that.
	Dismissed error
	// Patient allows libraries and cards minutes: a person sees the waiting message and can stop
	// the command.
	Patient bool
	// Finishing is told while a change of a token is under way that must not be interrupted.
	Finishing hsm.Finishing
	// Longest bounds how long a worker may take; 0 is what each operation has.
	Longest time.Duration
}

// Status describes a process that holds a token.
type Status struct {
	PID   int     `json:"pid"`
	Token hsm.URI `json:"token"`
	// Memory is its resident set in bytes, 0 where it is unknown.
	Memory uint64 `json:"memory,omitempty"`
}

// End is that of a process that was not told to end.
type End struct {
	Token hsm.URI
	// Killed says that it did not answer and was ended by force; else it crashed.
	Killed bool
	// PIN says that it had been given a PIN, or another secret with tries, for what it was at.
	PIN bool
}

// Token is what is needed of a token that is held, as [hsm.Token] says.
type Token interface {
	Info(ctx context.Context) (hsm.TokenInfo, error)
	Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error)
	Unlock(ctx context.Context, p hsm.Prompter) error
	Unlocked() bool
	Lock() error
	Signer(ctx context.Context, u hsm.URI, want crypto.PublicKey, p hsm.Prompter) (crypto.Signer, error)
	Close() error
}

// Tokens is where tokens come from.
type Tokens interface {
	// Open finds the one token that u names, as [hsm.Driver.Open].
	Open(ctx context.Context, u hsm.URI) (Token, error)
	// Removed returns nil when t is no longer there, [hsm.ErrDisconnected] when the server that
	// it came by is not, else ctx's error, or why it cannot tell.
	Removed(ctx context.Context, t Token) error
	// Workers lists the processes that hold tokens, if any do.
	Workers() []Status
	// OnEnd has f called whenever such a process ends that was not told to.
	OnEnd(f func(End))
	// Close lets all tokens go.
	Close() error
}

// ShowAfter is how long an operation waits for a library before a message says so.
const ShowAfter = time.Second

type waitingKey struct{}

// WithWaiting returns a context whose operations call show when they have waited for a library
// for [ShowAfter], but not while a person is asked, and call done when the wait is over. The
// library's name is raw: "library /usr/lib/x.so", "smart card service". A nil show shows nothing.
func WithWaiting(ctx context.Context, show func(library string) (done func())) context.Context {
	return context.WithValue(ctx, waitingKey{}, show)
}

// ErrEnded says that a worker was ended because it did not answer. The PIN it held
// is gone with it, and a card is told as soon as it can be.
var ErrEnded = errors.New("the token's worker did not answer and was ended")

// ErrNotSent says that what held the token was gone before it was asked: to ask
// again does no harm.
var ErrNotSent = errors.New("the token's worker has ended")

// InProcess reaches tokens by drivers in this process, where a library that
// crashes takes everything along: for systems without worker processes, and tests.
func InProcess(d hsm.Drivers) Tokens { return inProcess{d} }

type inProcess struct{ hsm.Drivers }

// Open implements [Tokens].
func (d inProcess) Open(ctx context.Context, u hsm.URI) (Token, error) {
	return d.Drivers.Open(ctx, u)
}

// Workers implements [Tokens].
func (inProcess) Workers() []Status { return nil }

// OnEnd implements [Tokens].
func (inProcess) OnEnd(func(End)) {}

// How often a token is looked after whose driver does not tell of changes, and at the
// most where it does.
const (
	LookEvery   = 2 * time.Second
	lookTimeout = 15 * time.Second
)

// Removed implements [Tokens].
func (d inProcess) Removed(ctx context.Context, t Token) error {
	info, err := t.Info(ctx)
	for err == nil {
		if err := d.change(ctx, info.Scheme); err != nil {
			return err
		}
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		_, err = t.Info(look)
		cancel()
		if errors.Is(err, hsm.ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
			err = nil // the token is there, but busy
		}
	}
	switch {
	case errors.Is(err, hsm.ErrDisconnected):
		return err
	case errors.Is(err, hsm.ErrRemoved), errors.Is(err, hsm.ErrNoToken):
		return nil
	}
	return fmt.Errorf("looking after the token: %w", err)
}

// change returns when a token of that scheme may have gone.
func (d inProcess) change(ctx context.Context, scheme string) error {
	for _, driver := range d.Drivers {
		if w, ok := driver.(hsm.Watcher); ok && driver.Scheme() == scheme {
			return w.Watch(ctx)
		}
	}
	select {
	case <-time.After(LookEvery):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
