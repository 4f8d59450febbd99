package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// lister reads what one library, or the smart card service, has. All who want it at
// the same time share one reading, which goes on when they no longer wait: so a
// library that hangs is asked once, however often it is wanted.
type lister struct {
	name string // the name in Problems

	mu      sync.Mutex
	reading *reading
	last    []hsm.View // the result of the last reading, nil if that failed
}

// reading is one reading.
type reading struct {
	began time.Time
	done  chan struct{} // closed at the end; then the rest is set
	views []hsm.View
	more  []hsm.Problem
	err   error
}

// begin returns the reading that is going on, or a new one by read.
func (l *lister) begin(read func() ([]hsm.View, []hsm.Problem, error)) *reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading != nil {
		return l.reading
	}
	r := &reading{began: time.Now(), done: make(chan struct{})}
	l.reading = r
	go func() {
		r.views, r.more, r.err = read()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reading, l.last = nil, nil
		if r.err == nil {
			l.last = r.views
		}
		close(r.done)
	}()
	return r
}

// result waits for r until late is closed: then it is what was found the last time,
// or a Problem with [hsm.ErrPending].
func (l *lister) result(ctx context.Context, r *reading, late <-chan struct{}) ([]hsm.View, []hsm.Problem, error) {
	select {
	case <-r.done:
		return r.views, r.more, r.err
	default:
	}
	select {
	case <-r.done:
		return r.views, r.more, r.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-late:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		return l.last, nil, nil
	}
	err := fmt.Errorf("%w for %s", hsm.ErrPending, time.Since(r.began).Round(100*time.Millisecond))
	err = hint.With(err, "wait, or stop the command with ctrl-c")
	return nil, []hsm.Problem{{Source: l.name, Err: err}}, nil
}

// lateAfter returns a channel that is closed when wait is over, or never if wait is 0.
func lateAfter(wait time.Duration) (late <-chan struct{}, stop func()) {
	if wait == 0 {
		return nil, func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	return ctx.Done(), cancel
}
