package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestResponderSoon: an agent that has just started awaits the open UI that looks for
// it, and nobody for longer.
func TestResponderSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		age    time.Duration // of the agent
		comes  *Responder
		in     time.Duration
		waited time.Duration
	}{
		"an open UI":           {0, &Responder{}, 100 * time.Millisecond, 100 * time.Millisecond},
		"one that is there":    {0, &Responder{}, 0, 0},
		"another's attendant":  {0, &Responder{Client: process.ID{PID: 7}}, 100 * time.Millisecond, startGrace},
		"nobody":               {0, nil, 0, startGrace},
		"an agent that is old": {startGrace, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := NewResponders(began.Add(-tc.age))
				switch {
				case tc.comes != nil && tc.in == 0:
					s.Add(tc.comes)
				case tc.comes != nil:
					time.AfterFunc(tc.in, func() { s.Add(tc.comes) })
				}
				s.soon(context.Background())
				if waited := time.Since(began); waited != tc.waited {
					t.Errorf("waited %v, not %v", waited, tc.waited)
				}
			})
		})
	}
}
