package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// cards is the driver of smart cards, in this process, which keeps nobody waiting
// where the smart card service hangs.
type cards struct {
	hsm.Driver
	lister[hsm.View]
	limit  time.Duration   // cardsTimeout
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

var (
	_ hsm.Viewer  = (*cards)(nil)
	_ hsm.Watcher = (*cards)(nil)
)

// cardsTimeout is how long the smart card service may take for all readers: a card
// that others hold is waited for, and a slow one has many slots.
const cardsTimeout = 20 * time.Second

func newCards(d hsm.Driver) *cards {
	c := &cards{Driver: d, limit: cardsTimeout}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Views implements [hsm.Viewer].
func (c *cards) Views(
	ctx context.Context, wait time.Duration, skip func(hsm.TokenInfo) bool,
) ([]hsm.View, []hsm.Problem, error) {
	r := c.begin(func() ([]hsm.View, []hsm.Problem, error) { return hsm.ReadViews(c.ctx, c.Driver, skip) })
	patience, stop := context.WithTimeout(context.Background(), cmp.Or(wait, c.limit))
	defer stop()
	views, problems, err := c.result(ctx, patience, r)
	switch {
	case !errors.Is(err, hsm.ErrPending):
		return views, problems, err
	case wait == 0:
	case time.Since(r.began) >= c.limit:
		return views, []hsm.Problem{{Source: smartCards, Err: lateCards(c.limit)}}, nil
	case views != nil:
		return views, nil, nil // the last answer still counts
	default:
		return nil, []hsm.Problem{{Source: smartCards, Err: err}}, nil
	}
	return nil, nil, lateCards(c.limit)
}

// smartCards is the name of the smart card service in Problems.
const smartCards = "smart cards"

// lateCards says that the smart card service did not answer in time.
func lateCards(limit time.Duration) error {
	err := fmt.Errorf("%w: the smart card service did not answer for %s", hsm.ErrModule, span.Limit(limit))
	return hint.With(err, hsm.Hung(""))
}

// Watch implements [hsm.Watcher].
func (c *cards) Watch(ctx context.Context) error {
	w, ok := c.Driver.(hsm.Watcher)
	if !ok {
		return hsm.ErrUnsupported
	}
	return w.Watch(ctx)
}

// Close implements [hsm.Driver], once no reading uses the inner driver any more.
func (c *cards) Close() error {
	c.cancel()
	c.mu.Lock()
	r := c.reading
	c.mu.Unlock()
	if r != nil {
		select {
		case <-r.done:
		case <-time.After(closeTimeout):
		}
	}
	return c.Driver.Close()
}

// closeTimeout is how long a reading that was cancelled may take to end.
const closeTimeout = 500 * time.Millisecond
