package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Group is a heading and the keys under it.
type Group struct {
	Name  string
	Lines []HelpLine
}

// HelpLine is one key, and what is sent to do what it does; nil if that is only done by the key.
type HelpLine struct {
	screen.Action
	Runs tea.Msg
}

// Help shows what every key does now, from the live bindings, and does it.
type Help struct {
	base
	groups []Group
	keys   keys.Map
	nav    widget.Nav
	height int
}

// NewHelp returns the list of groups.
func NewHelp(k keys.Map, groups ...Group) *Help { return &Help{groups: groups, keys: k, height: 1} }

// Title implements [Dialog].
func (d *Help) Title() string { return "Keys" }

// Actions implements [Dialog].
func (d *Help) Actions() []screen.Action {
	run := screen.Action{Key: keys.As(d.keys.Enter, "do it")}
	if l, ok := d.selected(); ok {
		run.Reason = screen.Because(l.Reason, screen.When(l.Runs == nil, "press the key"))
	}
	return []screen.Action{run, act(keys.As(d.keys.Back, "close"))}
}

func (d *Help) lines() (all []HelpLine) {
	for _, g := range d.groups {
		all = append(all, g.Lines...)
	}
	return all
}

func (d *Help) selected() (HelpLine, bool) {
	all := d.lines()
	if d.nav.Index >= len(all) {
		return HelpLine{}, false
	}
	return all[d.nav.Index], true
}

// Update implements [Dialog].
func (d *Help) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	if d.nav.Click(msg, len(d.lines())) {
		return false, nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok || d.nav.Update(k, d.keys, len(d.lines()), d.height):
		return false, nil
	case key.Matches(k, d.keys.Enter):
		if l, ok := d.selected(); ok && l.Runs != nil && l.Reason == "" {
			return true, screen.Send(l.Runs)
		}
		return false, nil
	}
	return key.Matches(k, d.keys.Back, d.keys.Help, d.keys.Quit), nil
}

// View implements [Dialog].
func (d *Help) View(f screen.Frame) string {
	var lines []string
	n, at := 0, 0 // keys drawn, and the line of the one under the cursor
	for i, g := range d.groups {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, f.Theme.Title.Render(g.Name))
		for _, l := range g.Lines {
			lead := "  "
			if n == d.nav.Index {
				lead, at = f.Theme.Accent.Render(f.Theme.Glyphs.Mark)+" ", len(lines)
			}
			lines = append(lines, widget.Row(n, lead+keyLine(f.Theme, l.Action, n == d.nav.Index, f.Width-2)))
			n++
		}
	}
	more := len(lines) > f.Height && f.Height > 1
	if d.height = max(min(len(lines), f.Height), 1); more {
		d.height-- // a line says so
	}
	first := at
	if d.nav.Index == 0 { // the heading stays in view
		first = 0
	}
	from, to := d.nav.WindowAt(len(lines), d.height, first, at)
	shown := lines[from:to:to]
	switch left := len(lines) - to; {
	case more && left > 0:
		shown = append(shown, f.Theme.Faint.Render(f.Theme.Glyphs.Down+" "+present.Count(left, "line")+" more"))
	case more:
		shown = append(shown, f.Theme.Faint.Render(f.Theme.Glyphs.Up+" end"))
	}
	return strings.Join(shown, "\n")
}

func keyLine(t theme.Theme, a screen.Action, selected bool, w int) string {
	h := a.Key.Help()
	name := strings.Repeat(" ", max(9-widget.Width(h.Key), 0)) + h.Key
	switch {
	case a.Reason != "":
		return widget.Cut(t.Faint.Render(name+"  "+h.Desc+" ("+a.Reason+")"), w)
	case selected:
		return widget.Cut(t.Accent.Render(name)+"  "+t.Selected.Render(h.Desc), w)
	}
	return widget.Cut(t.Accent.Render(name)+"  "+t.Text.Render(h.Desc), w)
}
