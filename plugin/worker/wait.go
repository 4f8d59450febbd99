package worker

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// Wait is the wait for a library that a caller uses in its own process. It shows the
// message of [WithWaiting], but not while a person is asked.
type Wait struct {
	show func(library string) (done func())
	wait wait
}

// NewWait returns a wait that show is called for.
func NewWait(show func(library string) (done func())) *Wait { return &Wait{show: show} }

// Begin begins the wait for the library that reaches what u names.
func (w *Wait) Begin(u hsm.URI) { w.wait.begin(func() (done func()) { return w.show(libraryOf(u)) }) }

// Before returns a prompter that asks p and hides the message in the meantime.
func (w *Wait) Before(p hsm.Prompter) hsm.Prompter {
	if p == nil {
		return nil
	}
	return w.wait.around(ask.From(p))
}

// End ends the wait, if it has begun.
func (w *Wait) End() { w.wait.end() }

// libraryOf names what may crash or hang.
func libraryOf(u hsm.URI) string {
	switch {
	case u.ModulePath != "":
		return "library " + u.ModulePath
	case !u.Kind().Modules:
		return "smart card service"
	}
	return "library of token " + u.String()
}

// wait shows a message while a library is awaited, but not while a person is asked.
type wait struct {
	mu    sync.Mutex
	show  func() (done func())
	timer *time.Timer
	done  func() // removes the message
	asked int
	over  bool
}

func (w *wait) begin(show func() (done func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show = show
	w.arm()
}

// around asks through next, and hides the message in the meantime.
func (w *wait) around(next ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		resume := w.hold()
		a, err := next(ctx, q)
		if err == nil && q.Touch != nil {
			down := a.Done
			a.Done = func() {
				if down != nil {
					down()
				}
				resume()
			}
			return a, nil
		}
		resume()
		return a, err
	}
}

func (w *wait) arm() {
	w.timer = time.AfterFunc(ShowAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked == 0 && !w.over && w.done == nil {
			w.done = w.show()
		}
	})
}

// down takes down what is shown.
func (w *wait) down() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.done != nil {
		w.done()
		w.done = nil
	}
}

// hold shows nothing until resume is called.
func (w *wait) hold() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.down()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked--; w.asked == 0 && w.show != nil && !w.over {
			w.arm()
		}
	})
}

func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.down()
}
