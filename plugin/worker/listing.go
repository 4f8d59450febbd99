//go:build unix

package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// lister reads what one library, or the smart card service, has. All who want it at
// the same time share one reading, which goes on when they no longer wait: so a
// library that hangs is asked once, however often it is wanted.
type lister[T any] struct {
	mu      sync.Mutex
	reading *reading[T]
	last    []T // result of the last reading, nil if it failed
}

// reading is one reading.
type reading[T any] struct {
	began time.Time
	done  chan struct{} // closed at the end; then the rest is set
	found []T
	more  []hsm.Problem
	err   error
}

// begin returns the reading that is going on, or a new one by read.
func (l *lister[T]) begin(read func() ([]T, []hsm.Problem, error)) *reading[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading != nil {
		return l.reading
	}
	r := &reading[T]{began: time.Now(), done: make(chan struct{})}
	l.reading = r
	go func() {
		r.found, r.more, r.err = read()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reading, l.last = nil, nil
		if r.err == nil {
			l.last = r.found
		}
		close(r.done)
	}()
	return r
}

// result waits for r until patience ends: then it is what was found the last time, if anything,
// and an error with [hsm.ErrPending].
func (l *lister[T]) result(ctx, patience context.Context, r *reading[T]) ([]T, []hsm.Problem, error) {
	select {
	case <-r.done:
		return r.found, r.more, r.err
	default:
	}
	select {
	case <-r.done:
		return r.found, r.more, r.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-patience.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := fmt.Errorf("%w for %s", hsm.ErrPending, span.Limit(time.Since(r.began).Round(100*time.Millisecond)))
	return l.last, nil, hint.With(err, "wait, or stop the command with ctrl-c")
}
