package tui

import (
	"context"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// rig drives the root model; see [tuitest.Rig].
type rig struct {
	*tuitest.Rig
	m     *model
	grace time.Duration // of dialogs that open by themselves
}

type rigOption func(*rig, *Options)

func newRig(t testing.TB, b Backend, w, h int, opts ...rigOption) *rig {
	t.Helper()
	r := &rig{}
	flow, _ := flowtest.Env(t)
	o := Options{Backend: b, Flow: flow, Env: []string{"LANG=C.UTF-8"}}
	for _, f := range opts {
		f(r, &o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.Rig = tuitest.New(t, w, h, func(clock func() time.Time) tea.Model {
		r.m = newModelWith(ctx, o, timing{clock: clock, grace: r.grace})
		return r.m
	})
	t.Cleanup(func() {
		cancel()
		r.m.close(tuitest.Patience)
	})
	return r
}

// waiting is how many commands wait for what a test does: the listener, the offer
// to the agent, and ticks.
func (r *rig) waiting() int {
	n := 2
	for _, ticks := range []bool{r.m.ticking, r.m.polling} {
		if ticks {
			n++
		}
	}
	return n
}

// settle runs the model until nothing is awaited but ticks and what flows send.
func (r *rig) settle() {
	r.T.Helper()
	r.Settle(r.waiting)
}

// atEnroll starts at the wizard.
func atEnroll(_ *rig, o *Options) { o.Start = ScreenEnroll }

// noColour is the theme under NO_COLOR.
func (r *rig) noColour() { r.Send(tea.ColorProfileMsg{Profile: colorprofile.ASCII}) }
