package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/bridge"
)

// How long a client is given the same refusal again without more ado.
const (
	personCooldown  = 30 * time.Second // a person said no, or got the PIN wrong
	networkCooldown = 10 * time.Second
)

// flights lets one of many callers do a piece of work for all.
type flights struct {
	mu       sync.Mutex
	running  map[string]*flight
	refusals map[refused]refusal
}

type flight struct {
	terminal uint64 // where its leader's person is asked
	waiting  int    // how many wait for its result
	done     chan struct{}
	err      error
}

// refused is a client and the enrolment that it was refused.
type refused struct {
	client     bridge.Client
	enrollment string
}

type refusal struct {
	err   error
	until time.Time
}

func newFlights() *flights {
	return &flights{running: map[string]*flight{}, refusals: map[refused]refusal{}}
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
	fl.err = fmt.Errorf("prepare %s: interrupted", name) // what waiters see if work panics
	fl.err = work()
	return fl.err
}

// recall returns the refusal that is still in force for a client.
func (f *flights) recall(c bridge.Client, name string, now time.Time) error {
	if !c.Known() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.refusals[refused{c, name}]
	if !ok || now.After(r.until) {
		return nil
	}
	return r.err
}

// remember keeps a refusal. kubectl runs its plugin up to five times in one
// command; without this it would ask, and burn PIN tries, five times.
func (f *flights) remember(c bridge.Client, name string, err error, now time.Time) {
	if !c.Known() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, r := range f.refusals {
		if now.After(r.until) || (err == nil && k.enrollment == name) {
			delete(f.refusals, k)
		}
	}
	if d := cooldown(err); d > 0 {
		f.refusals[refused{c, name}] = refusal{err, now.Add(d)}
	}
}

func cooldown(err error) time.Duration {
	if err == nil {
		return 0
	}
	for _, e := range []error{hsm.ErrCancelled, hsm.ErrPINIncorrect, hsm.ErrPINInvalid, hsm.ErrTouchTimeout, bridge.ErrNotSigned} {
		if errors.Is(err, e) {
			return personCooldown
		}
	}
	if errors.Is(err, bridge.ErrUnreachable) {
		return networkCooldown
	}
	return 0
}
