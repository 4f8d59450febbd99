package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

const bellAfter = 5 * time.Second

// Touch says that a token waits to be touched, or for a PIN typed on its reader.
type Touch struct {
	base
	prompt  hsm.TouchPrompt
	account account
	keys    keys.Map
	guard   guard
	rung    bool
}

// Title implements [Dialog].
func (d *Touch) Title() string {
	if d.prompt.Pad != "" {
		return text.Clean(string(d.prompt.Pad)) + " of " + text.Clean(d.prompt.Token.Name())
	}
	return "Touch " + text.Clean(d.prompt.Token.Name())
}

// Open implements [Dialog].
func (d *Touch) Open(now time.Time) tea.Cmd {
	d.guard.open(now)
	return nil
}

// Width tells how wide the dialog would like to be.
func (d *Touch) Width() int {
	if len(d.prompt.Purpose.Fields) > 0 {
		return 100
	}
	return 64
}

// Animating implements [Dialog].
func (d *Touch) Animating() bool { return true }

// Actions implements [Dialog].
func (d *Touch) Actions() []screen.Action {
	return append(d.account.actions(), act(keys.As(d.keys.Back, "stop waiting")))
}

// Update implements [Dialog].
func (d *Touch) Update(msg tea.Msg, now time.Time) (bool, tea.Cmd) {
	if !d.rung && now.Sub(d.guard.opened) >= bellAfter {
		d.rung = true
		return false, tea.Raw("\a")
	}
	if d.guard.drops(msg, now) {
		return false, nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok || d.account.update(k):
	case key.Matches(k, d.keys.Back):
		return true, screen.Send(screen.InterruptedMsg{})
	}
	return false, nil
}

// View implements [Dialog].
func (d *Touch) View(f screen.Frame) string {
	t := f.Theme
	lines := purpose(f, d.prompt.Purpose, d.prompt.Token)
	if d.account.some() {
		lines = d.account.view(f, 1)
	} else {
		lines = append(lines, "")
	}
	what := "Waiting for your touch"
	if d.prompt.Pad != "" {
		what = "Type it on the reader"
	}
	wait := widget.Spinner(t, d.guard.opened.Add(-widget.SpinnerDelay), f.Now) + " " + t.Title.Render(what)
	if e := f.Now.Sub(d.guard.opened); e >= widget.ElapsedDelay {
		wait += t.Muted.Render(" " + t.Glyphs.Dot + " " + present.Elapsed(e))
	}
	return strings.Join(append(lines, wait), "\n")
}
