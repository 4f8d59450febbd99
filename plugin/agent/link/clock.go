package link

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrSlow says that a server took longer than [Options.Limit].
var ErrSlow = errors.New("the answer took too long")

// clock is a time limit that stands still while a person is asked. A nil clock has none.
type clock struct {
	limit time.Duration
	mu    sync.Mutex
	timer *time.Timer
	asked int
}

// within ends ctx with [ErrSlow] when limit has passed by the clock; 0 is no limit.
func within(ctx context.Context, limit time.Duration) (_ context.Context, c *clock, stop func()) {
	if limit == 0 {
		return ctx, nil, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c = &clock{limit: limit, timer: time.AfterFunc(limit, func() { cancel(ErrSlow) })}
	return ctx, c, func() { c.timer.Stop(); cancel(nil) }
}

// hold has the clock stand still until resume is called, and begin anew then.
func (c *clock) hold() (resume func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	c.timer.Stop()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asked--; c.asked == 0 {
			c.timer.Reset(c.limit)
		}
	}
}
