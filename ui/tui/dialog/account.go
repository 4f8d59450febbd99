package dialog

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present/question"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// account is the subject of a question: short, so that the answer stays in view, or whole, to be
// scrolled. Down opens the whole; up at its top closes it.
type account struct {
	notice string
	fields []hsm.Field
	keys   keys.Map

	cut    bool // the short form leaves something out
	whole  bool
	scroll widget.Scroll
}

func (a *account) some() bool { return len(a.fields) > 0 }

// update reports whether the account used the key. It leaves letters and editing keys alone: a
// secret may be typed.
func (a *account) update(k tea.KeyPressMsg) bool {
	down := key.Matches(k, a.keys.Down, a.keys.PageDown, a.keys.End)
	switch {
	case k.Text != "" || k.Mod.Contains(tea.ModCtrl) || !a.some():
		return false
	case !a.cut: // a look for more must not move to another answer
		return down || key.Matches(k, a.keys.Up, a.keys.PageUp)
	case !a.whole && down:
		a.whole = true
		a.scroll.Top()
		return true
	case a.whole && a.scroll.AtTop() && key.Matches(k, a.keys.Up, a.keys.PageUp):
		a.whole = false
		return true
	}
	return a.whole && a.scroll.Update(k, a.keys)
}

func (a *account) actions() []screen.Action {
	switch {
	case !a.cut:
		return nil
	case a.whole:
		return []screen.Action{act(keys.Shown(a.keys.Down, "↑↓", "scroll"))}
	}
	return []screen.Action{act(keys.Shown(a.keys.Down, "↓", "show all"))}
}

func (a *account) view(f screen.Frame, below int) []string {
	rows := max(f.Height-below, 1)
	notice := func(s string) []string {
		if s == "" {
			return nil
		}
		return widget.Paragraph(f.Theme.Warn, s, f.Width)
	}
	room := question.Room{Columns: f.Width + 1, Rows: f.Height, All: f.Theme.Glyphs.Down + " shows all"}
	all := append(notice(text.Clean(a.notice)), question.All(a.fields, room.Columns)...)
	short := notice(question.Notice(a.notice, room))
	room.Rows = max(rows-len(short), 1)
	short = append(short, question.Fields(a.fields, room)...)
	lines := all
	if a.cut = !slices.Equal(all, short); !a.cut {
		a.whole = false
	} else if !a.whole {
		lines = short
	}
	if a.whole {
		lines = strings.Split(a.scroll.View(f.Theme, lines, f.Width, rows), "\n")
	}
	if len(lines) < rows {
		lines = append(lines, "")
	}
	return lines
}
