// Package dialog holds the dialogs of the terminal UI - PIN, touch, confirm,
// help, commands - and the [hsm.Prompter] that opens them for flows which run
// in the background.
package dialog

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// Tone says how a dialog looks.
type Tone int

// The tones.
const (
	Plain   Tone = iota
	Caution      // something may be lost
)

// Dialog is one dialog. The top one of the stack gets the keys. Its methods are
// called on one goroutine.
type Dialog interface {
	Title() string
	Tone() Tone
	// Open is called once, when it comes onto the stack.
	Open(now time.Time) tea.Cmd
	// Update changes the dialog; closed takes it off the stack.
	Update(msg tea.Msg, now time.Time) (closed bool, cmd tea.Cmd)
	// View draws lines of at most f.Width columns, at most f.Height of them.
	View(f screen.Frame) string
	// Actions lists what keys do now; the dialog shows them itself.
	Actions() []screen.Action
	// Animating reports whether the view changes by itself.
	Animating() bool
	// Drop is called when it leaves the stack, answered or not: it zeroes what
	// is secret and lets nobody wait for an answer.
	Drop()
}

// base has the answers of a plain dialog; dialogs embed it and override what differs.
type base struct{}

// Tone implements [Dialog].
func (base) Tone() Tone { return Plain }

// Open implements [Dialog].
func (base) Open(time.Time) tea.Cmd { return nil }

// Drop implements [Dialog].
func (base) Drop() {}

// Animating implements [Dialog].
func (base) Animating() bool { return false }

// The messages about dialogs.
type (
	// OpenMsg puts a dialog onto the stack. ID is 0 for those that nobody closes
	// from outside.
	OpenMsg struct {
		ID     uint64
		Dialog Dialog
	}
	// CloseMsg takes the dialog that was opened with ID off the stack.
	CloseMsg struct{ ID uint64 }
)

// Grace is how long a dialog that opened by itself drops keys: they were meant
// for what was there before. Each dropped key extends it, up to maxGrace in all.
const (
	Grace    = 300 * time.Millisecond
	maxGrace = time.Second
)

type guard struct {
	grace         time.Duration
	opened, until time.Time
}

func (g *guard) open(now time.Time) { g.opened, g.until = now, now.Add(g.grace) }

func (g *guard) drops(msg tea.Msg, now time.Time) bool {
	switch msg.(type) {
	case tea.KeyPressMsg, tea.PasteMsg:
	default:
		return false
	}
	if !now.Before(g.until) {
		return false
	}
	if g.until = now.Add(g.grace); g.until.After(g.opened.Add(maxGrace)) {
		g.until = g.opened.Add(maxGrace)
	}
	return true
}

func act(b key.Binding) screen.Action { return screen.Action{Key: b} }
