package tui

import (
	"context"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// waitDelay is how long an operation waits before it says why.
const waitDelay = time.Second

// waits says in the dialog of an operation why that waits, until done is called.
func waits(ctx context.Context, w ask.Wait) (done func()) {
	var mu sync.Mutex
	said, over := false, false
	late := time.AfterFunc(waitDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			said = true
			screen.Say(ctx, waiting.Words(w))
		}
	})
	return func() {
		late.Stop()
		mu.Lock()
		defer mu.Unlock()
		if said && !over {
			screen.Say(ctx, "")
		}
		over = true
	}
}
