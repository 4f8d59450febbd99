// Package tuitest drives a terminal UI in tests, without a terminal: it presses
// keys, and waits for what the screen then holds. It knows bubbletea and no screen.
package tuitest

import (
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Patience bounds how long a test waits for what must happen.
const Patience = 20 * time.Second

// Now is the time that rigs begin at.
func Now() time.Time { return time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC) }

// Rig drives a root model: commands run as the real runtime runs them, time
// stands still unless a test moves it. Its methods are called by the goroutine of
// the test.
type Rig struct {
	T     testing.TB
	Time  time.Time
	Quit  bool      // the model has quit
	Given []tea.Msg // to the model, oldest first

	model   tea.Model
	msgs    chan tea.Msg
	pending atomic.Int32
	drawn   drawn
}

// drawn is the last frame, which is the same until the model is given something or time moves.
type drawn struct {
	given int
	at    time.Time
	text  string
}

// New returns a rig for the model that begin returns, on a terminal of w columns
// and h lines. begin is given the rig's clock.
func New(t testing.TB, w, h int, begin func(clock func() time.Time) tea.Model) *Rig {
	r := &Rig{T: t, Time: Now(), msgs: make(chan tea.Msg, 256)}
	r.model = begin(func() time.Time { return r.Time })
	r.Run(r.model.Init())
	r.Send(tea.WindowSizeMsg{Width: w, Height: h})
	return r
}

// answered stands for a command that returned no message.
type answered struct{}

// Run starts cmd in the background, as the runtime does.
func (r *Rig) Run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if isBatch(cmd) { // at once: what is not begun yet is not overlooked
		for _, c := range cmd().(tea.BatchMsg) {
			r.Run(c)
		}
		return
	}
	r.pending.Add(1)
	go func() {
		switch msg := cmd().(type) {
		case nil:
			r.msgs <- answered{}
		case tea.BatchMsg:
			for _, c := range msg {
				r.Run(c)
			}
			r.msgs <- answered{}
		default:
			r.msgs <- msg
		}
	}()
}

// isBatch reports whether cmd only stands for others.
func isBatch(cmd tea.Cmd) bool {
	return strings.Contains(runtime.FuncForPC(reflect.ValueOf(cmd).Pointer()).Name(), "bubbletea/v2.compactCmds")
}

// Send gives msg to the model.
func (r *Rig) Send(msg tea.Msg) {
	if _, quit := msg.(tea.QuitMsg); quit {
		r.Quit = true
		return
	}
	r.Given = append(r.Given, msg)
	_, cmd := r.model.Update(msg)
	r.Run(cmd)
}

// Model is the model that is driven.
func (r *Rig) Model() tea.Model { return r.model }

// Frame is what the screen holds, with its colours.
func (r *Rig) Frame() tea.View { return r.model.View() }

// View is what the screen holds, without colours.
func (r *Rig) View() string {
	if r.drawn.given != len(r.Given) || r.drawn.at != r.Time {
		r.drawn = drawn{given: len(r.Given), at: r.Time, text: ansi.Strip(r.model.View().Content)}
	}
	return r.drawn.text
}

// Until runs the model until cond holds.
func (r *Rig) Until(what string, cond func() bool) {
	r.T.Helper()
	deadline := time.After(Patience)
	for !cond() {
		select {
		case msg := <-r.msgs:
			r.take(msg)
		case <-deadline:
			r.T.Fatalf("never: %s; the screen is\n%s", what, r.View())
		}
	}
}

// Settle runs the model until no more than so many commands are under way, which
// are those that wait for something from outside.
func (r *Rig) Settle(waiting func() int) {
	r.T.Helper()
	r.Until("settled", func() bool {
		return r.Quit || int(r.pending.Load()) == waiting() && len(r.msgs) == 0
	})
}

// quiet is how long a model must send nothing to count as waiting for something from outside.
const quiet = 5 * time.Millisecond

// Idle is Settle for a model of which more parts may wait for something from outside than
// waiting counts: it also returns when the model was quiet for a while.
func (r *Rig) Idle(waiting func() int) {
	r.T.Helper()
	for !r.Quit && (int(r.pending.Load()) > waiting() || len(r.msgs) > 0) {
		select {
		case msg := <-r.msgs:
			r.take(msg)
		case <-time.After(quiet):
			return
		}
	}
}

// take gives the model what a command returned.
func (r *Rig) take(msg tea.Msg) {
	r.pending.Add(-1)
	if _, nothing := msg.(answered); !nothing {
		r.Send(msg)
	}
}

// Sees runs the model until its screen holds every text.
func (r *Rig) Sees(texts ...string) {
	r.T.Helper()
	for _, s := range texts {
		r.Until("screen holds "+s, func() bool { return strings.Contains(r.View(), s) })
	}
}

// Walk presses keys as Press does, and waits, as Sees does, for each text behind "~".
func (r *Rig) Walk(steps ...string) {
	r.T.Helper()
	for _, s := range steps {
		if text, sees := strings.CutPrefix(s, "~"); sees {
			r.Sees(text)
		} else {
			r.Press(s)
		}
	}
}

// Loses runs the model until its screen holds none of the texts.
func (r *Rig) Loses(texts ...string) {
	r.T.Helper()
	for _, s := range texts {
		r.Until("screen is rid of "+s, func() bool { return !strings.Contains(r.View(), s) })
	}
}

// Press presses keys by name; a text in quotes is typed.
func (r *Rig) Press(names ...string) {
	r.T.Helper()
	for _, n := range names {
		for _, k := range Keys(n) {
			r.Send(k)
		}
	}
}

// Keys are the messages of a key's name, or of the text in quotes.
func Keys(name string) []tea.KeyPressMsg {
	if len(name) > 1 && name[0] == '"' {
		var out []tea.KeyPressMsg
		for _, c := range strings.Trim(name, `"`) {
			out = append(out, tea.KeyPressMsg{Code: c, Text: string(c)})
		}
		return out
	}
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp,
		"down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown,
		"home": tea.KeyHome, "end": tea.KeyEnd}
	if c, ok := special[name]; ok {
		return []tea.KeyPressMsg{{Code: c}}
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return []tea.KeyPressMsg{{Code: rune(rest[0]), Mod: tea.ModCtrl}}
	}
	c := []rune(name)[0]
	return []tea.KeyPressMsg{{Code: c, Text: string(c)}}
}
