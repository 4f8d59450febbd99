package worker

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// AwaitLibrary shows that the library which reaches what u names is awaited, if that takes
// longer than a moment, until end is called.
func AwaitLibrary(u hsm.URI, show func(library string) (done func())) (end func()) {
	w := &wait{}
	w.begin(func() (done func()) { return show(libraryOf(u)) })
	return w.end
}

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
