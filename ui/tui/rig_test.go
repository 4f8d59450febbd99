package tui

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
)

// patience bounds how long a test waits for what must happen.
const patience = 20 * time.Second

// rig drives the root model without a terminal: commands run as the real
// runtime runs them, time stands still unless a test moves it.
type rig struct {
	t    testing.TB
	m    *model
	msgs chan tea.Msg
	now  time.Time
	quit bool
	sent []tea.Msg // what the model was given

	grace time.Duration // of dialogs that open by themselves

	pending atomic.Int32 // commands that have not answered
}

// answered stands for a command that returned no message.
type answered struct{}

type rigOption func(*rig, *Options)

func newRig(t testing.TB, b Backend, w, h int, opts ...rigOption) *rig {
	t.Helper()
	r := &rig{t: t, msgs: make(chan tea.Msg, 256), now: fakeNow()}
	o := Options{Backend: b, Env: []string{"LANG=C.UTF-8"}}
	for _, f := range opts {
		f(r, &o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.m = newModelWith(ctx, o, timing{clock: func() time.Time { return r.now }, grace: r.grace})
	t.Cleanup(func() {
		cancel()
		r.m.close(patience)
	})
	r.run(r.m.Init())
	r.send(tea.WindowSizeMsg{Width: w, Height: h})
	return r
}

// run starts cmd in the background, as the runtime does.
func (r *rig) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if isBatch(cmd) { // at once: what is not begun yet is not overlooked
		for _, c := range cmd().(tea.BatchMsg) {
			r.run(c)
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
				r.run(c)
			}
			r.msgs <- answered{}
		default:
			r.msgs <- msg
		}
	}()
}

// isBatch tells whether cmd only stands for others.
func isBatch(cmd tea.Cmd) bool {
	return strings.Contains(runtime.FuncForPC(reflect.ValueOf(cmd).Pointer()).Name(), "bubbletea/v2.compactCmds")
}

// send gives msg to the model.
func (r *rig) send(msg tea.Msg) {
	switch msg.(type) {
	case tea.QuitMsg:
		r.quit = true
		return
	}
	r.sent = append(r.sent, msg)
	_, cmd := r.m.Update(msg)
	r.run(cmd)
}

func (r *rig) view() string { return ansi.Strip(r.m.View().Content) }

// until runs the model until cond holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	deadline := time.After(patience)
	for !cond() {
		select {
		case msg := <-r.msgs:
			r.pending.Add(-1)
			if _, nothing := msg.(answered); !nothing {
				r.send(msg)
			}
		case <-deadline:
			r.t.Fatalf("never: %s; the screen is\n%s", what, r.view())
		}
	}
}

// settle runs the model until nothing is awaited but ticks and what flows send.
func (r *rig) settle() {
	r.t.Helper()
	r.until("settled", func() bool {
		awaited := int32(2) // the listener, and the offer to the agent
		if r.m.ticking {
			awaited++
		}
		if r.m.polling {
			awaited++
		}
		return r.quit || r.pending.Load() == awaited && len(r.msgs) == 0
	})
}

// sees runs the model until its screen holds every text.
func (r *rig) sees(texts ...string) {
	r.t.Helper()
	for _, s := range texts {
		r.until("screen holds "+s, func() bool { return strings.Contains(r.view(), s) })
	}
}

// press presses keys by name; a text in quotes is typed.
func (r *rig) press(names ...string) {
	r.t.Helper()
	for _, n := range names {
		for _, k := range keyPresses(n) {
			r.send(k)
		}
	}
}

// keyPresses are the messages of a key's name, or of the text in quotes.
func keyPresses(name string) []tea.KeyPressMsg {
	if len(name) > 1 && name[0] == '"' {
		var out []tea.KeyPressMsg
		for _, c := range strings.Trim(name, `"`) {
			out = append(out, tea.KeyPressMsg{Code: c, Text: string(c)})
		}
		return out
	}
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd}
	if c, ok := special[name]; ok {
		return []tea.KeyPressMsg{{Code: c}}
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return []tea.KeyPressMsg{{Code: rune(rest[0]), Mod: tea.ModCtrl}}
	}
	c := []rune(name)[0]
	return []tea.KeyPressMsg{{Code: c, Text: string(c)}}
}

// atEnroll starts at the wizard.
func atEnroll(_ *rig, o *Options) { o.Start = ScreenEnroll }

// noColour is the theme under NO_COLOR.
func (r *rig) noColour() { r.send(tea.ColorProfileMsg{Profile: colorprofile.ASCII}) }
