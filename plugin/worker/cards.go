package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// cards is the driver of smart cards, in this process, which keeps nobody waiting
// where the smart card service hangs.
type cards struct {
	hsm.Driver
	lister
	limit  time.Duration   // cardsTimeout
	asking func() bool     // tells that a reading waits for a person
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

func newCards(d hsm.Driver, asking func() bool) *cards {
	c := &cards{Driver: d, limit: cardsTimeout, asking: asking, lister: lister{name: "smart cards"}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Views implements [hsm.Viewer].
func (c *cards) Views(
	ctx context.Context, wait time.Duration, skip func(hsm.TokenInfo) bool,
) ([]hsm.View, []hsm.Problem, error) {
	r := c.begin(func() ([]hsm.View, []hsm.Problem, error) { return hsm.ReadViews(c.ctx, c.Driver, skip) })
	for {
		late, stop := lateAfter(cmp.Or(wait, c.limit))
		views, problems, err := c.result(ctx, r, late)
		stop()
		pending := len(problems) == 1 && errors.Is(problems[0].Err, hsm.ErrPending)
		switch {
		case err != nil || !pending || wait > 0:
			return views, problems, err
		case !c.asking():
			return nil, nil, hint.With(fmt.Errorf("%w: the smart card service did not answer for %s", hsm.ErrModule, c.limit),
				"restart the service, for example with `sudo systemctl restart pcscd`")
		}
	}
}

// Watch implements [hsm.Watcher].
func (c *cards) Watch(ctx context.Context) error {
	w, ok := c.Driver.(hsm.Watcher)
	if !ok {
		return hsm.ErrUnsupported
	}
	return w.Watch(ctx)
}

// Close implements [hsm.Driver]. A question that a reading has asked is taken back
// before.
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
