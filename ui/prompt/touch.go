package prompt

import (
	"context"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// A touch line appears after touchDelay, as most tokens answer sooner, and
// rings the bell after touchBell.
const (
	touchDelay = 200 * time.Millisecond
	touchBell  = 5 * time.Second
)

// Touch implements [hsm.Prompter]: a line appears after 200 ms, the bell rings and
// the desktop is told after 5 s, and the line is erased when done is called or ctx ends. Without a
// usable terminal nothing is shown.
func (t *Terminal) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		t.touches.show(ctx, touchWords(p))
	}()
	return func() { cancel(); <-finished }
}

// touches are the touch lines of a terminal. One is on the screen at a time,
// none while a prompt is.
type touches struct {
	notify func(words string) // see [TerminalOptions]

	mu     sync.Mutex
	paused bool
	due    []*touchLine
	shown  *touchLine
}

type touchLine struct {
	words string
	said  bool // a terminal that cannot erase gets the line only once
}

// show shows a line until ctx ends.
func (t *touches) show(ctx context.Context, words string) {
	if !wait(ctx, touchDelay) {
		return
	}
	line := &touchLine{words: words}
	t.change(func() { t.due = append(t.due, line) })
	defer t.change(func() {
		t.due = slices.DeleteFunc(t.due, func(l *touchLine) bool { return l == line })
	})
	resumed, stop := continued()
	defer stop()
	bell := time.NewTimer(touchBell - touchDelay)
	defer bell.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-bell.C:
			t.ring()
		case <-resumed: // after ctrl-z and fg the shell has written over it
			t.change(func() { t.shown = nil })
		}
	}
}

func (t *touches) pause()  { t.change(func() { t.paused = true }) }
func (t *touches) resume() { t.change(func() { t.paused = false }) }

// change changes the state and brings the screen in line with it.
func (t *touches) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	var want *touchLine
	if n := len(t.due); n > 0 && !t.paused {
		want = t.due[n-1]
	}
	if want == t.shown {
		return
	}
	c, err := openConsole()
	if err != nil {
		t.shown = nil // not ours to draw on
		return
	}
	defer c.close()
	out := ""
	ansi := ansiTerminal()
	if t.shown != nil && ansi {
		out = "\r\x1b[K"
	}
	if want != nil {
		words := want.words
		if n := c.columns(); n > 0 {
			words = text.Truncate(words, n-1)
		}
		switch {
		case ansi:
			out += words
		case !want.said:
			out += words + "\n"
		}
		want.said = true
	}
	t.shown = want
	_, _ = io.WriteString(c, out)
}

func (t *touches) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown == nil {
		return
	}
	c, err := openConsole()
	if err != nil {
		return
	}
	defer c.close()
	told := ""
	if ansiTerminal() {
		told = notice(os.Getenv, t.shown.words)
	}
	_, _ = io.WriteString(c, "\a"+told)
	if told == "" && t.notify != nil {
		t.notify(t.shown.words)
	}
}

// wait waits for d and tells whether ctx let it.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
