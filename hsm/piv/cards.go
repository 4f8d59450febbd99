package piv

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

// cards are the cards in the readers, each used by one operation at a time.
type cards struct {
	system   pcsc.System
	patience time.Duration
	finish   hsm.Finishing
	row      time.Duration // operations may follow each other at once for so long

	mu     sync.Mutex
	closed bool
	turns  map[string]*turn // the right to work on a reader, by reader
	known  map[insertion]hsm.Abilities
}

// turn is the right to work on a reader. Those who wait for it get it in the order in
// which they came.
type turn struct {
	taken chan struct{} // a token of the right; capacity 1
	// since is when this process took the card up, ended when it last let it go. Only the
	// holder of the right uses them.
	since, ended time.Time
}

// Other programs look for a free card every tenth of a second (pcscd's
// PCSCLITE_LOCK_POLL_RATE): an unbroken row of operations here would never let them have it.
const (
	longestRow = time.Second
	pause      = 120 * time.Millisecond // The card is left free for so long after a row.
)

// yield leaves the card free for a moment if it has been used for a row. The caller has the
// right, and ctx's end is an error.
func (t *turn) yield(ctx context.Context, row time.Duration) error {
	now := time.Now()
	switch {
	case now.Sub(t.ended) >= pause:
		t.since = now
		return nil
	case now.Sub(t.since) < row:
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		t.since = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turn returns the right to work on a reader, not taken.
func (c *cards) turn(name string) *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[name] == nil {
		c.turns[name] = &turn{taken: make(chan struct{}, 1)}
	}
	return c.turns[name]
}

func (c *cards) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *cards) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// open connects to the card in reader r and selects PIV.
func (c *cards) open(ctx context.Context, r pcsc.Reader, op *applet.Operation) (*applet.Session, error) {
	if err := r.Usable(); err != nil {
		return nil, err
	}
	card, err := c.system.Connect(ctx, r.Name, c.patience)
	if err != nil {
		return nil, err
	}
	s, err := applet.Open(ctx, op, card)
	if err != nil {
		if applet.Refused(err) {
			err = errForeign(r.Name, r.ATR)
		}
		_ = card.End(false) // the first error says what matters
		return nil, err
	}
	return s, nil
}

// operate runs f on the card in reader r, once it has said who it is. When ctx ends it
// returns as soon as nothing is shown of a touch any more, unless f has committed; the
// card is let go as soon as it answers, and until then further operations on the reader
// wait.
func operate[T any](ctx context.Context, c *cards, r pcsc.Reader, f func(*applet.Session) (T, error)) (T, error) {
	var none T
	turn := c.turn(r.Name)
	select {
	case turn.taken <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if err := turn.yield(ctx, c.row); err != nil {
		<-turn.taken
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	op := new(applet.Operation)
	go func() {
		defer func() {
			turn.ended = time.Now()
			<-turn.taken
		}()
		var res result
		s, err := c.open(ctx, r, op)
		if err != nil {
			res.err = err
		} else {
			if res.err = s.Identify(); res.err == nil {
				res.value, res.err = f(s)
			}
			// A card that was pulled out forgets by itself.
			if err := s.End(); err != nil && res.err == nil && !errors.Is(err, hsm.ErrRemoved) {
				res.err = err
			}
		}
		done <- res
	}()
	select {
	case res := <-done:
		return res.value, res.err
	case <-ctx.Done():
		if op.GiveUp() {
			return none, ctx.Err()
		}
		defer c.finish.Begin()()
		res := <-done
		return res.value, res.err
	}
}
