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

// waitDelay hides short waits. The agent has already waited when it reports a slow library.
const waitDelay = time.Second

// waitMsg is the reason why the work with this number waits, "" when it goes on.
type waitMsg struct {
	id    uint64
	words string
}

// waits shows why work waits: in the dialog of its operation, and in every header, because much of
// the work has no dialog.
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

type waitings []waitMsg

func (w *waitings) take(msg waitMsg) {
	*w = slices.DeleteFunc(*w, func(old waitMsg) bool { return old.id == msg.id })
	if msg.words != "" {
		*w = append(*w, msg)
	}
}

func (w waitings) latest() string {
	if len(w) == 0 {
		return ""
	}
	return w[len(w)-1].words
}
