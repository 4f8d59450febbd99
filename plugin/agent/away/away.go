// Package away tells when the person leaves the computer: it is suspended, or the screen is
// locked. On Linux logind says so on the system bus. It knows
// the configuration, and nothing of tokens and of the agent.
package away

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/settings"
)

// Event is a way to leave the computer. Its text is the reason on record, and never
// changes.
type Event string

// The events.
const (
	Suspend    Event = "suspend"     // the computer is about to sleep
	ScreenLock Event = "screen-lock" // the screen of a session of the user is locked
)

// Locking are the events that lock all tokens by the configuration.
func Locking(on settings.LockOn) (events []Event) {
	for _, e := range []struct {
		event Event
		set   bool
	}{{Suspend, on.Suspend}, {ScreenLock, on.ScreenLock}} {
		if e.set {
			events = append(events, e.event)
		}
	}
	return events
}

// Watch is what is watched for, and why it cannot be told here at present; an empty
// Problem says that it can.
type Watch struct {
	Event   Event
	Problem string
}

// Watcher watches for events. Make it with [New].
type Watcher struct {
	events []Event
	left   func(Event)

	mu      sync.Mutex
	problem string // the reason why nothing can be told
	late    string // the reason why a suspend may not wait for left
}

// New returns a Watcher for events. left is called for each of them, one at a time; a
// computer that is about to sleep waits until it returns, as long as the system lets it.
func New(events []Event, left func(Event)) *Watcher {
	return &Watcher{events: events, left: left, problem: "the system has not answered yet"}
}

// Watches says what is watched for. It does not ask the system.
func (w *Watcher) Watches() []Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Watch, 0, len(w.events))
	for _, e := range w.events {
		watch := Watch{Event: e, Problem: w.problem}
		if e == Suspend && watch.Problem == "" {
			watch.Problem = w.late
		}
		all = append(all, watch)
	}
	return all
}

// How long after a failure the system is asked again: soon if it has answered before, as
// when its bus is started again.
var (
	retrySoon = time.Second // changed by a test
	retryLate = time.Minute
)

// Run watches until ctx ends. It waits for nothing that is not there, and starts nothing.
func (w *Watcher) Run(ctx context.Context) {
	if len(w.events) == 0 {
		return
	}
	s := newSource(w)
	for pause := retrySoon; ; pause = min(2*pause, retryLate) {
		began, err := s.follow(ctx)
		if ctx.Err() != nil || err == nil {
			return
		}
		w.note(err.Error(), "")
		if began {
			pause = retrySoon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// note keeps what cannot be told, and why a suspend may not wait.
func (w *Watcher) note(problem, late string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem, w.late = problem, late
}

// wants tells whether e is watched for.
func (w *Watcher) wants(e Event) bool { return slices.Contains(w.events, e) }

// tell calls left with an event that is watched for.
func (w *Watcher) tell(e Event) {
	if w.wants(e) {
		w.left(e)
	}
}
