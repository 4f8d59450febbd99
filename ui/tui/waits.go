package tui

import (
	"context"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/waiting"
)

// waitDelay is how long work waits before it says why. A slow library is told of by the agent,
// which has waited for it already.
const waitDelay = time.Second

// waitMsg says why work waits, which has that number, or that it does so no longer: "".
type waitMsg struct {
	id    uint64
	words string
}

// waits says why work of the program waits, until done is called: in the dialog of an
// operation, and by send for the header of every screen, as much of the work has no dialog.
func waits(send func(tea.Msg), number func() uint64) func(ctx context.Context, w ask.Wait) (done func()) {
	return func(ctx context.Context, w ask.Wait) (done func()) {
		id := number()
		say := func(words string) {
			screen.Say(ctx, words)
			send(waitMsg{id: id, words: words})
		}
		var mu sync.Mutex
		said, over := false, false
		delay := waitDelay
		if w.For == ask.ForLibrary {
			delay = 0
		}
		late := time.AfterFunc(delay, func() {
			mu.Lock()
			defer mu.Unlock()
			if !over {
				said = true
				say(waiting.Words(w))
			}
		})
		return func() {
			late.Stop()
			mu.Lock()
			defer mu.Unlock()
			if said && !over {
				say("")
			}
			over = true
		}
	}
}

// waitings are what work waits for now, the latest last.
type waitings []waitMsg

// take takes in what began or ended.
func (w *waitings) take(msg waitMsg) {
	*w = slices.DeleteFunc(*w, func(old waitMsg) bool { return old.id == msg.id })
	if msg.words != "" {
		*w = append(*w, msg)
	}
}

// latest is the sentence about what began to wait last, "" if nothing waits.
func (w waitings) latest() string {
	if len(w) == 0 {
		return ""
	}
	return w[len(w)-1].words
}
