package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Work says that an operation runs. It stays until the root closes it; esc
// cancels what runs.
type Work struct {
	base
	title    string
	keys     keys.Map
	cancel   func()
	began    time.Time
	stopping bool
	said     string // the last progress line, unescaped
}

// SayMsg tells a [Work] how far it is.
type SayMsg struct{ Line string }

// NewWork returns a dialog for an operation that cancel ends.
func NewWork(k keys.Map, title string, cancel func()) *Work {
	return &Work{title: title, keys: k, cancel: cancel}
}

// Title implements [Dialog].
func (d *Work) Title() string { return text.Clean(d.title) }

// Open implements [Dialog].
func (d *Work) Open(now time.Time) tea.Cmd {
	d.began = now
	return nil
}

// Animating implements [Dialog].
func (d *Work) Animating() bool { return true }

// Quiet tells the root not to draw it yet: most work is done before anybody
// would have read what it says.
func (d *Work) Quiet(now time.Time) bool { return now.Sub(d.began) < widget.SpinnerDelay }

// Actions implements [Dialog].
func (d *Work) Actions() []screen.Action {
	a := act(keys.As(d.keys.Back, "cancel"))
	if d.stopping {
		a.Reason = "it is being cancelled"
	}
	return []screen.Action{a}
}

// Update implements [Dialog]. Keys that come before it is seen were meant for what was there before.
func (d *Work) Update(msg tea.Msg, now time.Time) (bool, tea.Cmd) {
	if m, ok := msg.(SayMsg); ok {
		d.said = m.Line
		return false, nil
	}
	k, isKey := msg.(tea.KeyPressMsg)
	_, interrupted := msg.(screen.InterruptedMsg)
	if (interrupted || isKey && !d.Quiet(now) && key.Matches(k, d.keys.Back)) && !d.stopping {
		d.stopping = true
		d.cancel()
	}
	return false, nil
}

// View implements [Dialog].
func (d *Work) View(f screen.Frame) string {
	what := "Working"
	if d.stopping {
		what = "Cancelling"
	}
	lines := []string{widget.Working(f.Theme, what, d.began, f.Now)}
	if d.said != "" && !d.stopping {
		lines = append(lines, widget.Paragraph(f.Theme.Text, text.Clean(strings.ReplaceAll(d.said, "\n", " ")), f.Width)...)
	}
	return strings.Join(lines, "\n")
}
