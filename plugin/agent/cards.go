package agent

import (
	"context"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// cards is the driver of smart cards, in this process, which keeps nobody waiting
// where the smart card service hangs.
type cards struct {
	hsm.Driver
	looker
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

var (
	_ hsm.Viewer  = (*cards)(nil)
	_ hsm.Watcher = (*cards)(nil)
)

func newCards(d hsm.Driver) *cards {
	c := &cards{Driver: d, looker: looker{name: "smart cards"}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Views implements [hsm.Viewer].
func (c *cards) Views(ctx context.Context, patience time.Duration, skip func(hsm.TokenInfo) bool) ([]hsm.View, []hsm.Problem, error) {
	late, stop := lateAfter(patience)
	defer stop()
	r := c.begin(func() ([]hsm.View, []hsm.Problem, error) { return hsm.ReadViews(c.ctx, c.Driver, skip) })
	return c.result(ctx, r, late)
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
		case <-time.After(closePatience):
		}
	}
	return c.Driver.Close()
}

// closePatience is how long a reading that was cancelled may take to end.
const closePatience = 500 * time.Millisecond
