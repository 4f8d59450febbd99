package screentest

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// Rig drives the terminal UI in a world.
type Rig struct {
	*tuitest.Rig
	World *World

	end func()
}

// Close ends the program and its work before the test ends.
func (r *Rig) Close() { r.end() }

// Open shows the terminal UI with the section of the top level that has that
// number in front, on a terminal of 120 columns and 40 lines.
func (w *World) Open(section string) *Rig {
	w.T.Helper()
	return w.at(section, tui.Options{})
}

// OpenReadOnly is Open in read-only mode.
func (w *World) OpenReadOnly(section string) *Rig {
	w.T.Helper()
	return w.at(section, tui.Options{ReadOnly: true})
}

// OpenWizard shows the wizard.
func (w *World) OpenWizard() *Rig {
	w.T.Helper()
	return w.Start(120, 40, tui.Options{Start: tui.ScreenEnroll})
}

func (w *World) at(section string, o tui.Options) *Rig {
	w.T.Helper()
	o.Start = tui.ScreenTokens
	r := w.Start(120, 40, o)
	if section != "" {
		r.Press(section)
	}
	return r
}

// Start shows the terminal UI on a terminal of width columns and height lines. It sets
// o.Flow to the world's environment.
func (w *World) Start(width, height int, o tui.Options) *Rig {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o.Env, o.Environ = w.Env, append([]string{"LANG=C.UTF-8"}, o.Environ...)
	var end func(time.Duration)
	r := &Rig{World: w, Rig: tuitest.New(w.T, width, height, func(clock func() time.Time) tea.Model {
		var m tea.Model
		m, end = tui.Model(ctx, o, clock)
		return m
	})}
	r.end = sync.OnceFunc(func() {
		cancel()
		end(tuitest.Patience)
	})
	w.T.Cleanup(r.end)
	return r
}

// Copied returns what was put onto the clipboard last, "" if nothing was.
func (r *Rig) Copied() string {
	text := ""
	for _, m := range r.Given {
		if c, ok := m.(screen.CopyMsg); ok {
			text = c.Text
		}
	}
	return text
}

// Type types a secret into the dialog whose title holds what, and confirms it.
func (r *Rig) Type(what, secret string) {
	r.T.Helper()
	r.Sees(what)
	r.Press(`"`+secret+`"`, "enter")
}
