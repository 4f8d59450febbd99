// Package screen says what a screen of the terminal UI is to the root model,
// and which messages screens send it. A screen owns its view state only: it
// renders a string of the size it is given, changes itself in Update, and does
// slow work in commands made by a task.Runner.
package screen

import (
	"context"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// ID names a screen.
type ID string

// The screens.
const (
	Home     ID = "home"
	Tokens   ID = "tokens"
	Token    ID = "token"
	Enroll   ID = "enroll"
	Contexts ID = "contexts"
	Requests ID = "requests"
	Activity ID = "activity"
	HelpDesk ID = "help-desk"
	Doctor   ID = "doctor"
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
	// Writes: it changes something, and so cannot be used in read-only mode.
	Writes bool
	// Verb is the command that does the same, without the program's name, such as
	// "token pin change"; "" for what only a screen does. Several are separated by ";".
	Verb string
}

// Verbs are the commands that do the same.
func (a Action) Verbs() []string {
	if a.Verb == "" {
		return nil
	}
	return strings.Split(a.Verb, "; ")
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
	// Typing reports whether letters are text now, so that q and ? are not keys.
	Typing() bool
	// Animating reports whether the view changes by itself now.
	Animating() bool
	// Watching is how often the tokens are read again while the screen is in front, 0 for never.
	Watching() time.Duration
	// Leave says why leaving the program now wants a second thought, "" if it does not.
	Leave() string
}

// Poller is a screen that looks again at what it shows every so often while it
// is the one in front.
type Poller interface {
	// Poll returns what reads it again, nil if it is not yet time for that.
	Poll(now time.Time) tea.Cmd
}

// Base is a screen that does not type, move, watch or hold anything; screens
// embed it and say what is otherwise.
type Base struct{}

// Open implements [Screen].
func (Base) Open(time.Time) tea.Cmd { return nil }

// Close implements [Screen].
func (Base) Close() {}

// Typing implements [Screen].
func (Base) Typing() bool { return false }

// Animating implements [Screen].
func (Base) Animating() bool { return false }

// Watching implements [Screen].
func (Base) Watching() time.Duration { return 0 }

// Leave implements [Screen].
func (Base) Leave() string { return "" }

// Operation is work that a person asked for and waits for. The root runs it
// below a dialog that shows how long it takes and cancels it; one at a time.
type Operation struct {
	// Title says what is done, as "Change the PIN".
	Title string
	// Command is the command line that does the same, "" if none was shown.
	Command string
	// Writes: it is refused in read-only mode.
	Writes bool
	// Run does it. It asks p where a person is needed.
	Run func(ctx context.Context, p hsm.Prompter) (Report, error)
}

type progressKey struct{}

// WithProgress returns a context whose work tells by [Say] how far it is, and which library
// it waits for.
func WithProgress(ctx context.Context, tell func(string)) context.Context {
	ctx = worker.WithWaiting(ctx, func(library string) (done func()) {
		tell("waiting for the " + library)
		return func() { tell("") }
	})
	return context.WithValue(ctx, progressKey{}, tell)
}

// Say shows a line, raw, while an operation runs. Nobody hears it elsewhere.
func Say(ctx context.Context, line string) {
	if tell, ok := ctx.Value(progressKey{}).(func(string)); ok {
		tell(line)
	}
}

// Report is what came of an operation. Its texts are raw.
type Report struct {
	// Said is one line for a toast.
	Said string
	// Lines are shown under Title until they are dismissed; none are not.
	Title string
	Lines []string
	// Sections are shown below the lines.
	Sections []present.Section
	// Message goes to the screens, nil for none.
	Message tea.Msg
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
	// CopyMsg puts text onto the clipboard, where every program can read it: nothing secret but
	// what a person asks for by name, such as a ticket to hand over.
	CopyMsg struct {
		What string // "URI", "fingerprint"
		Text string
	}
	// CommandMsg shows the exact commands of what is on the screen.
	CommandMsg struct {
		Title string
		Lines []string
	}
	// OperationMsg asks the root to run an operation.
	OperationMsg struct{ Operation Operation }
	// ChangedMsg tells every screen that an operation has ended, well or not:
	// what they show may have changed.
	ChangedMsg struct{}
	// FailureMsg shows an error and its hint until it is dismissed.
	FailureMsg struct {
		Title string
		Err   error
	}
	// TextMsg shows lines until they are dismissed. Copy is what the copy key
	// takes, "" for nothing; it is never a secret.
	TextMsg struct {
		Title string
		Lines []string // raw
		// Sections are shown below the lines.
		Sections []present.Section
		What     string // the name of what Copy holds, such as "certificate"
		Copy     string
	}
	// GoMsg asks for another screen at the top level, to show what Argument names
	// there, if it names anything.
	GoMsg struct {
		To       ID
		Argument string
	}
	// ArgumentMsg tells a screen what to show.
	ArgumentMsg struct {
		To    ID
		Value string
	}
	// EnrolledMsg says that an enrollment has ended; Err is why it did not succeed, nil if it did.
	EnrolledMsg struct {
		Name string
		Err  error
	}
	// ResultMsg says that an enrollment is finished.
	ResultMsg struct{ Result enrolling.Result }
	// InterruptedMsg tells the screen that a person gave up what it waits for.
	InterruptedMsg struct{}
)

// Send returns a command that sends m.
func Send(m tea.Msg) tea.Cmd { return func() tea.Msg { return m } }
