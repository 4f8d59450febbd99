package agent

import (
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// How long a client waits for a word from its agent.
const (
	beatEvery     = 3 * time.Second
	quickPatience = wire.Patience          // quick answers, and the time between beats
	slowPatience  = 40 * time.Second       // an agent's end, which a token may slow down
	livePatience  = 500 * time.Millisecond // urgent answers; ReadWithin adds a second
	liveEvery     = 250 * time.Millisecond // the beats of urgent answers
)

// patience is how long an operation may be without a word; 0 is without end.
func (c *Client) patience(op string) time.Duration {
	switch {
	case urgent(op):
		return livePatience
	case c.beats, op == opHello, op == opStatus, op == opRetire:
		return quickPatience
	}
	return 0
}

// urgent tells whether an operation is to be in force within two seconds, whatever
// has become of the agent: a client that misses a sign of life ends it.
func urgent(op string) bool { return op == opLock || op == opStop }
