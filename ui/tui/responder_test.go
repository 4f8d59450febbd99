package tui

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
)

// TestOfferFindsAnAgentSoon: an agent that kubectl has just started asks a few
// tenths of a second later.
func TestOfferFindsAnAgentSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := time.Now().Add(time.Minute)
		var found time.Time
		ended := make(chan error)
		go func() {
			ended <- offer(ctx, func(ctx context.Context) error {
				if time.Now().Before(runs) {
					return client.ErrNotRunning
				}
				found = time.Now()
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(2 * time.Minute) // the bubble's time, not the clock's
		synctest.Wait()
		if found.IsZero() {
			t.Fatal("never found")
		}
		if after := found.Sub(runs); after > 200*time.Millisecond {
			t.Errorf("found after %v", after)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
