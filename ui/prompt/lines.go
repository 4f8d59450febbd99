package prompt

import (
	"context"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/ui/present/question"
)

// A touch line appears after touchDelay, as most tokens answer sooner, and
// rings the bell after touchBell. A line that says why a command waits takes
// longer: most waits are over by then.
const (
	touchDelay = 200 * time.Millisecond
	waitDelay  = time.Second
)

var touchBell = 5 * time.Second // changed by a test

// Waiting shows a line of clean words, which say why the command waits: it appears
// after a second and is erased when done is called. Without a usable terminal it is
// written to stderr, once, unless that is a terminal that another program holds.
func (t *Terminal) Waiting(words string, stderr io.Writer) (done func()) {
	return t.lines.put(context.Background(), &line{words: words, delay: waitDelay, stderr: stderr})
}

// Counting is [Terminal.Waiting] for words that say how long it has lasted: they are asked
// for each second. It shows them at once.
func (t *Terminal) Counting(words func(time.Duration) string, stderr io.Writer) (done func()) {
	began := time.Now()
	now := func() string { return words(time.Since(began)) }
	return t.lines.put(context.Background(), &line{words: now(), now: now, stderr: stderr})
}

// lines are the lines that say what is awaited. One is on the screen at a time, none while a prompt
// is.
type lines struct {
	notify func(words string) // see [TerminalOptions]

	mu     sync.Mutex
	paused bool
	due    []*line
	shown  *line
	told   string // last line written to standard error
}

type line struct {
	words       string
	now         func() string                // the words a second later; may be nil
	above       func(question.Room) []string // clean lines above the words; may be nil
	drawn       []string                     // lines on the screen
	delay, bell time.Duration                // time until the block is shown, and until the bell (0: never)
	stderr      io.Writer                    // takes it where there is no terminal; may be nil
	keep        func() bool                  // tells that the block stays, see [block]; may be nil
	kept        bool                         // The block was drawn to stay.
	said        bool                         // a line that stays is written only once
	old         bool                         // the words on screen are outdated
}

func (t *lines) put(ctx context.Context, l *line) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		t.show(ctx, l)
	}()
	return func() { cancel(); <-finished }
}

func (t *lines) show(ctx context.Context, l *line) {
	if !wait(ctx, l.delay) {
		return
	}
	resumed, stop := continued()
	defer stop()
	t.change(func() { t.due = append(t.due, l) })
	defer t.change(func() {
		t.due = slices.DeleteFunc(t.due, func(o *line) bool { return o == l })
	})
	var bell <-chan time.Time
	if l.bell > 0 {
		timer := time.NewTimer(l.bell - l.delay)
		defer timer.Stop()
		bell = timer.C
	}
	var second <-chan time.Time
	if l.now != nil {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		second = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-second:
			t.change(func() { l.old = true })
		case <-bell:
			t.ring()
		case <-resumed: // after ctrl-z and fg the shell has written over it
			t.change(func() { t.shown = nil })
		}
	}
}

func (t *lines) pause()  { t.change(func() { t.paused = true }) }
func (t *lines) resume() { t.change(func() { t.paused = false }) }

func (t *lines) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	var want *line
	if n := len(t.due); n > 0 && !t.paused {
		want = t.due[n-1]
	}
	if want == t.shown && (want == nil || !want.old) {
		return
	}
	c, err := openConsole()
	if err != nil {
		t.shown = nil // not ours to draw on
		t.tell(want)
		return
	}
	defer c.close()
	b := block{w: c, room: c.room, ansi: ansiTerminal()}
	if t.shown != nil && !t.shown.kept && b.ansi {
		b.above, b.label, b.keep = t.shown.drawn, t.shown.words, t.shown.keep
		b.erase("", false)
	}
	t.shown = want
	if want == nil {
		return
	}
	if want.old {
		want.words, want.old = want.now(), false
	}
	want.kept = want.keep != nil && want.keep()
	b.above, b.label = nil, want.words
	if want.above != nil {
		b.above = want.above(c.room())
	}
	want.drawn = b.above
	switch {
	case b.ansi && !want.kept:
	case want.said:
		return
	default:
		b.above, b.label = append(b.above, want.words), ""
	}
	want.said = true
	b.draw()
}

func (t *lines) tell(l *line) {
	if l == nil || l.stderr == nil || l.said || l.words == t.told {
		return
	}
	if f, ok := l.stderr.(*os.File); ok && raw(f) {
		return
	}
	l.said, t.told = true, l.words
	_, _ = io.WriteString(l.stderr, l.words+"\n") // the wait goes on without the notice
}

func (t *lines) ring() {
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
