// Package interrupt ends the program when it is told to, also while a token's
// library hangs that no context reaches.
package interrupt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/ui"
)

// How long the program may take to end once it is told to, and how long where it
// finishes what must not be left half-way, see [Watch.Finishing].
var grace = 2 * time.Second // tests of what hangs have less

const finish = 2 * time.Minute

// errInterrupted and errTerminated are the causes of the context's end.
var (
	errInterrupted = errors.New("interrupt signal received")
	errTerminated  = errors.New("terminated signal received")
)

// exitTerminated is 128 + SIGTERM.
const exitTerminated = 143

// Watch waits for the signals.
type Watch struct {
	signals   chan os.Signal
	done      chan struct{}
	finishing atomic.Int32
	words     io.Writer
	terminal  func()     // puts the terminal's modes back
	exit      func(int)  // os.Exit
	mu        sync.Mutex // held by the goroutine that ends the program
}

// Context returns a context that ends with SIGINT or SIGTERM. If the program has not
// called stop within two seconds of that, or at once at a second signal, it is ended
// with the exit code 130 or 143, the terminal as it was at this call. What must not be
// left half-way calls [Watch.Finishing].
func Context(parent context.Context) (ctx context.Context, w *Watch, stop func()) {
	w = &Watch{signals: make(chan os.Signal, 2), done: make(chan struct{})}
	w.words, w.terminal, w.exit = os.Stderr, keepTerminal(), os.Exit
	signal.Notify(w.signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop = w.start(parent)
	return ctx, w, stop
}

func (w *Watch) start(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case s := <-w.signals:
			cancel(cause(s))
			w.end(s)
		case <-w.done:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		w.mu.Lock() // a program that is being ended does not return
		defer w.mu.Unlock()
		signal.Stop(w.signals)
		close(w.done)
		cancel(nil)
	})
}

// Finishing is an hsm.Finishing: it keeps the program from being ended until done is
// called.
func (w *Watch) Finishing() (done func()) {
	w.finishing.Add(1)
	return sync.OnceFunc(func() { w.finishing.Add(-1) })
}

// end waits for the program to end after signal s, and ends it if it does not.
func (w *Watch) end(s os.Signal) {
	said := false
	for began, last := time.Now(), time.Now(); ; {
		select {
		case <-w.done:
			return
		case s = <-w.signals:
			w.leave(s, "")
			return
		case <-time.After(grace / 20):
		}
		held := w.finishing.Load() > 0
		switch {
		case held && time.Since(began) < finish:
			last = time.Now()
			if !said && time.Since(began) >= grace {
				said = true
				fmt.Fprintln(w.words, "finishing a step that must not stop half-way; a second ctrl-c ends it at once")
			}
		case time.Since(last) >= grace:
			w.leave(s, "a token's library, or another call that the command waited for, did not return")
			return
		}
	}
}

// leave ends the program at once.
func (w *Watch) leave(s os.Signal, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.done: // the command has ended by itself
		return
	default:
	}
	w.terminal()
	if why != "" {
		ui.Report(w.words, fmt.Errorf("%w: %s", cause(s), why))
	}
	if s == syscall.SIGTERM {
		w.exit(exitTerminated)
	} else {
		w.exit(ui.ExitInterrupted)
	}
}

func cause(s os.Signal) error {
	if s == syscall.SIGTERM {
		return errTerminated
	}
	return errInterrupted
}
