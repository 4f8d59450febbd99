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

// Command shows the exact commands of what is on the screen, to copy.
type Command struct {
	base
	title  string
	lines  []string
	done   []string
	keys   keys.Map
	scroll widget.Scroll
}

// NewCommand returns a dialog for m, and the commands of what was done before.
func NewCommand(k keys.Map, m screen.CommandMsg, done []string) *Command {
	return &Command{title: m.Title, lines: m.Lines, done: done, keys: k}
}

// Title implements [Dialog].
func (d *Command) Title() string { return text.Clean(d.title) }

// Actions implements [Dialog].
func (d *Command) Actions() []screen.Action {
	return []screen.Action{act(d.keys.Copy), act(keys.As(d.keys.Back, "close"))}
}

// Update implements [Dialog].
func (d *Command) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok || d.scroll.Update(k, d.keys):
		return false, nil
	case key.Matches(k, d.keys.Copy):
		return true, screen.Send(screen.CopyMsg{What: "command", Text: strings.Join(d.lines, "\n")})
	}
	return key.Matches(k, d.keys.Back, d.keys.Command, d.keys.Quit, d.keys.Enter), nil
}

// View implements [Dialog].
func (d *Command) View(f screen.Frame) string {
	lines := commandLines(f, d.lines)
	if len(d.done) > 0 {
		lines = append(append(lines, "", f.Theme.Title.Render("Done before")), commandLines(f, d.done)...)
	}
	return d.scroll.View(f.Theme, lines, f.Width, min(len(lines), f.Height))
}

func commandLines(f screen.Frame, commands []string) []string {
	var lines []string
	for _, l := range commands {
		for i, part := range text.Wrap(text.Clean(l), max(f.Width-2, 1)) {
			lead := "  "
			if i == 0 {
				lead = f.Theme.Accent.Render("$ ")
			}
			lines = append(lines, lead+f.Theme.Text.Render(part))
		}
	}
	return lines
}

// Width tells how wide the dialog would like to be.
func (d *Command) Width() int { return 84 }
