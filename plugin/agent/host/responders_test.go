package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestPersonSoon: an agent that has just started awaits the open UI that looks for
// it, and nobody for longer.
func TestPersonSoon(t *testing.T) {
	for name, tc := range map[string]struct {
		age    time.Duration // of the agent
		comes  *responder
		in     time.Duration
		waited time.Duration
	}{
		"an open UI":           {0, &responder{}, 100 * time.Millisecond, 100 * time.Millisecond},
		"one that is there":    {0, &responder{}, 0, 0},
		"another's attendant":  {0, &responder{client: process.ID{PID: 7}}, 100 * time.Millisecond, frontGrace},
		"nobody":               {0, nil, 0, frontGrace},
		"an agent that is old": {frontGrace, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := newResponders(began.Add(-tc.age))
				switch {
				case tc.comes != nil && tc.in == 0:
					s.add(tc.comes)
				case tc.comes != nil:
					time.AfterFunc(tc.in, func() { s.add(tc.comes) })
				}
				s.soon(context.Background())
				if waited := time.Since(began); waited != tc.waited {
					t.Errorf("waited %v, not %v", waited, tc.waited)
				}
			})
		})
	}
}
