package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// retryError is an error that may go away by itself.
type retryError struct {
	err   error
	after time.Duration // not before; the server's wish
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// pace is how one call repeats what may yet succeed.
type pace struct {
	first, most time.Duration // between attempts, doubling from first to most
	attempt     time.Duration // bounds each
	waiting     func(error)
}

// defaultPace is faster than kubeadm's (every 5 s): somebody is watching.
func defaultPace(l Limits) pace {
	return pace{first: 250 * time.Millisecond, most: 5 * time.Second, attempt: 15 * time.Second, waiting: l.Waiting}
}

// until repeats op while its error is a retryError and ctx lasts. At the end it
// returns op's last error: that says more than the clock does.
func (p pace) until(ctx context.Context, op func(context.Context) error) error {
	for wait := p.first; ; wait = min(2*wait, p.most) {
		err := p.once(ctx, op)
		var again *retryError
		if !errors.As(err, &again) {
			return err
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		pause := max(wait, again.after)
		if deadline, ok := ctx.Deadline(); ctx.Err() != nil || (ok && time.Until(deadline) < pause) {
			return fmt.Errorf("gave up waiting: %w", again.err)
		}
		if p.waiting != nil {
			p.waiting(again.err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (p pace) once(ctx context.Context, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.attempt)
	defer cancel()
	return op(ctx)
}

// limited bounds ctx by timeout, 0 meaning fallback.
func limited(ctx context.Context, timeout, fallback time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		timeout = fallback
	}
	return context.WithTimeout(ctx, timeout)
}
