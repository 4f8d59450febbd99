package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Group is a heading and the keys under it.
type Group struct {
	Name    string
	Actions []screen.Action
}

// Help shows what every key does now, from the live bindings.
type Help struct {
	base
	groups []Group
	keys   keys.Map
	scroll widget.Scroll
}

// NewHelp returns the help overlay for groups.
func NewHelp(k keys.Map, groups ...Group) *Help { return &Help{groups: groups, keys: k} }

// Title implements [Dialog].
func (d *Help) Title() string { return "Keys" }

// Actions implements [Dialog].
func (d *Help) Actions() []screen.Action {
	return []screen.Action{act(keys.As(d.keys.Back, "close"))}
}

// Update implements [Dialog].
func (d *Help) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || d.scroll.Update(k, d.keys) {
		return false, nil
	}
	return key.Matches(k, d.keys.Back, d.keys.Help, d.keys.Quit, d.keys.Enter), nil
}

// View implements [Dialog].
func (d *Help) View(f screen.Frame) string {
	var lines []string
	for i, g := range d.groups {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, f.Theme.Title.Render(g.Name))
		for _, a := range g.Actions {
			lines = append(lines, HelpLine(f.Theme, a, f.Width))
		}
	}
	return d.scroll.View(f.Theme, lines, f.Width, min(len(lines), f.Height))
}

// HelpLine draws one key, what it does, and why it cannot be used now.
func HelpLine(t theme.Theme, a screen.Action, w int) string {
	h := a.Key.Help()
	name := strings.Repeat(" ", max(10-widget.Width(h.Key), 0)) + h.Key
	if a.Reason != "" {
		return widget.Cut(t.Faint.Render(name+"  "+h.Desc+" ("+a.Reason+")"), w)
	}
	return widget.Cut(t.Accent.Render(name)+"  "+t.Text.Render(h.Desc), w)
}
