// Package screen says what a screen of the terminal UI is to the root model,
// and which messages screens send it. A screen owns its view state only: it
// renders a string of the size it is given, changes itself in Update, and does
// slow work in commands made by a task.Runner.
package screen

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// ID names a screen.
type ID string

// The screens.
const (
	Tokens ID = "tokens"
	Enroll ID = "enroll"
)

// Frame is what a view is drawn with.
type Frame struct {
	Width, Height int
	Theme         theme.Theme
	Now           time.Time
}

// With returns f with another size.
func (f Frame) With(w, h int) Frame {
	f.Width, f.Height = max(w, 0), max(h, 0)
	return f
}

// Action is a live key binding. One with a Reason cannot be used now: it is
// shown greyed, and pressing it says why.
type Action struct {
	Key    key.Binding
	Reason string
	// Quiet keeps it out of the footer; help still shows it.
	Quiet bool
}

// Screen is one screen. Its methods are called on one goroutine.
type Screen interface {
	ID() ID
	// Title is the screen's name in the header.
	Title() string
	// Open is called once, when the screen comes onto the stack.
	Open(now time.Time) tea.Cmd
	// Close is called when it leaves the stack: it cancels what it started.
	Close()
	Update(msg tea.Msg, now time.Time) tea.Cmd
	// View draws exactly f.Width by f.Height.
	View(f Frame) string
	// Actions lists what keys do now, the most useful first.
	Actions() []Action
	// Typing tells whether letters are text now, so that q and ? are not keys.
	Typing() bool
	// Animating tells whether the view changes by itself now.
	Animating() bool
	// Watching tells whether tokens should be looked for again and again.
	Watching() bool
	// Leave says why leaving the program now wants a second thought, "" if it does not.
	Leave() string
}

// The messages that screens and dialogs send to the root.
type (
	// OpenMsg puts a screen onto the stack.
	OpenMsg struct{ Screen Screen }
	// BackMsg takes the top screen off the stack.
	BackMsg struct{}
	// ToastMsg shows a line for a few seconds.
	ToastMsg struct {
		Text string // raw; the root cleans it
		Warn bool
	}
	// CopyMsg puts text that is not secret onto the clipboard.
	CopyMsg struct {
		What string // "URI", "fingerprint"
		Text string
	}
	// CommandMsg shows the exact commands of what is on the screen.
	CommandMsg struct {
		Title string
		Lines []string
	}
	// ResultMsg says that an enrolment is finished.
	ResultMsg struct{ Result flow.Result }
	// InterruptedMsg tells the screen that a person gave up what it waits for.
	InterruptedMsg struct{}
)

// Send returns a command that sends m.
func Send(m tea.Msg) tea.Cmd { return func() tea.Msg { return m } }
