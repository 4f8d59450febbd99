package agent

import (
	"bytes"
	"io"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// How long a client waits for a word from its agent.
const (
	beatEvery     = 3 * time.Second
	quickPatience = 10 * time.Second // for what takes no time, and between beats
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

// read reads one frame, whose first byte must come in time. A program that was
// itself suspended meanwhile finds the frame there, and takes it.
func (c *Client) read(limit time.Duration) (wire.Frame, error) {
	if limit == 0 {
		return wire.ReadFrame(c.conn)
	}
	var first [1]byte
	var err error
	for _, d := range []time.Duration{limit, time.Second} {
		if err = c.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
			return wire.Frame{}, err
		}
		if _, err = io.ReadFull(c.conn, first[:]); err == nil {
			break
		}
	}
	if err != nil {
		return wire.Frame{}, err
	}
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return wire.Frame{}, err
	}
	return wire.ReadFrame(io.MultiReader(bytes.NewReader(first[:]), c.conn))
}
