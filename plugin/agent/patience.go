package agent

import (
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// How long a client waits for a word from its agent.
const (
	beatEvery     = 3 * time.Second
	quickPatience = wire.Patience    // for what takes no time, and between beats
	slowPatience  = 40 * time.Second // for locks, which a token may slow down
)

// patience is how long an operation may be without a word; 0 is without end.
func (c *Client) patience(op string) time.Duration {
	switch {
	case c.beats, op == opHello, op == opStatus, op == opRetire:
		return quickPatience
	case op == opLock, op == opStop:
		return slowPatience
	}
	return 0
}
