package logfile

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Lines of one cause: the first is written at once, those that follow within
// repeatWindow as one, the last, with their count. A server that restarts under
// 50 watches would fill the log otherwise.
const (
	repeatWindow = 10 * time.Second
	maxCauses    = 256 // further causes are counted as one
)

// repeats is a handler that writes each cause once in a while.
type repeats struct {
	slog.Handler
	causes *causes
}

type causes struct {
	mu   sync.Mutex
	open map[string]*repeated
}

// repeated counts the lines since the first one of a cause.
type repeated struct {
	since time.Time
	last  slog.Record
	to    slog.Handler
	count int
}

func newRepeats(h slog.Handler) repeats {
	return repeats{h, &causes{open: map[string]*repeated{}}}
}

// Handle implements [slog.Handler].
func (r repeats) Handle(ctx context.Context, line slog.Record) error {
	c := r.causes
	c.mu.Lock()
	defer c.mu.Unlock()
	cause := causeOf(line)
	if c.open[cause] == nil && len(c.open) >= maxCauses {
		cause = ""
	}
	if o := c.open[cause]; o != nil && line.Time.Sub(o.since) < repeatWindow {
		o.last, o.to, o.count = line.Clone(), r.Handler, o.count+1
		return nil
	}
	err := c.flush(ctx, line.Time)
	c.open[cause] = &repeated{since: line.Time}
	return errors.Join(err, r.Handler.Handle(ctx, line))
}

// WithAttrs implements [slog.Handler].
func (r repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	return repeats{r.Handler.WithAttrs(attrs), r.causes}
}

// WithGroup implements [slog.Handler].
func (r repeats) WithGroup(name string) slog.Handler {
	return repeats{r.Handler.WithGroup(name), r.causes}
}

// flush writes the counts of the windows that are over.
func (r repeats) flush(now time.Time) error {
	r.causes.mu.Lock()
	defer r.causes.mu.Unlock()
	return r.causes.flush(context.Background(), now)
}

func (c *causes) flush(ctx context.Context, now time.Time) error {
	var errs []error
	for cause, o := range c.open {
		if now.Sub(o.since) < repeatWindow {
			continue
		}
		delete(c.open, cause)
		if o.count == 0 {
			continue
		}
		if o.count > 1 {
			o.last.AddAttrs(slog.Int("times", o.count))
		}
		errs = append(errs, o.to.Handle(ctx, o.last))
	}
	return errors.Join(errs...)
}

// causeOf is what a line says but for its numbers: ports and processes differ
// where the cause is the same.
func causeOf(line slog.Record) string {
	var b strings.Builder
	b.WriteString(line.Message)
	line.Attrs(func(a slog.Attr) bool {
		b.WriteString("\x00" + a.Key + "\x00" + a.Value.String())
		return true
	})
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, b.String())
}
