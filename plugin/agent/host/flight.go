package host

import (
	"context"
	"fmt"
	"sync"
)

// flights lets one of many callers do a piece of work for all.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	terminal uint64 // the terminal on which the leader's person is asked
	waiting  int    // the number of callers that wait for the result
	done     chan struct{}
	err      error
}

func newFlights() *flights {
	return &flights{running: map[string]*flight{}}
}

// do runs work for name, or waits for whoever does. A waiter takes the result,
// unless the error was the leader's own: then it leads itself. terminal is where
// the caller's person is asked.
func (f *flights) do(ctx context.Context, name string, terminal uint64, work func() error) error {
	for {
		f.mu.Lock()
		fl := f.running[name]
		if fl == nil {
			fl = &flight{terminal: terminal, done: make(chan struct{})}
			f.running[name] = fl
			f.mu.Unlock()
			return f.lead(name, fl, work)
		}
		fl.waiting++
		f.mu.Unlock()
		select {
		case <-fl.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if fl.err == nil || !passOn(fl.err, fl.terminal != terminal) {
			return fl.err
		}
	}
}

func (f *flights) lead(name string, fl *flight, work func() error) error {
	defer func() {
		f.mu.Lock()
		delete(f.running, name)
		f.mu.Unlock()
		close(fl.done)
	}()
	fl.err = fmt.Errorf("prepare %s: interrupted", name) // the error that waiters see if work panics
	fl.err = work()
	return fl.err
}
