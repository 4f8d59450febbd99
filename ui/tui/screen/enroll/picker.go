package enroll

import (
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

type item struct {
	id     string
	name   string
	about  string
	right  string
	level  present.Level // level of right
	detail []string      // lines below the list while the item is selected
	reason string        // reason why the item cannot be chosen, "" if it can
	index  int           // the number in its page
}

type picker struct {
	items  []item // all
	shown  []item
	filter widget.Filter
	nav    widget.Nav
	chosen string
	height int
}

// set replaces the items and keeps the selection, which begins at prefer.
func (p *picker) set(items []item, prefer string) {
	p.items = items
	if p.chosen == "" {
		p.chosen = prefer
	}
	p.rebuild()
}

func (p *picker) rebuild() {
	p.shown = nil
	for _, it := range p.items {
		if p.filter.Match(it.name + " " + it.about + " " + it.right) {
			p.shown = append(p.shown, it)
		}
	}
	for i, it := range p.shown {
		if it.id == p.chosen {
			p.nav.Index = i
		}
	}
	p.nav.Clamp(len(p.shown))
}

func (p *picker) selected() (item, bool) {
	if p.nav.Index >= len(p.shown) {
		return item{}, false
	}
	return p.shown[p.nav.Index], true
}

// update reports whether the list used msg.
func (p *picker) update(msg tea.Msg, m keys.Map) bool {
	if p.filter.Update(msg) {
		p.rebuild()
		return true
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case p.nav.Click(msg, len(p.shown)), ok && p.nav.Update(k, m, len(p.shown), p.height):
		if it, ok := p.selected(); ok {
			p.chosen = it.id
		}
		return true
	case !ok:
		return false
	case key.Matches(k, m.Filter):
		p.filter.Open()
		return true
	case key.Matches(k, m.Back) && p.filter.Active():
		p.filter.Clear()
		p.rebuild()
		return true
	}
	return false
}

func (p *picker) actions(m keys.Map, enter, back string) []screen.Action {
	if p.filter.Typing() {
		return []screen.Action{{Key: keys.As(m.Enter, "keep")}, {Key: keys.As(m.Back, "clear")}}
	}
	a := screen.Action{Key: keys.As(m.Enter, enter)}
	if it, ok := p.selected(); !ok {
		a.Reason = "nothing is selected"
	} else {
		a.Reason = it.reason
	}
	if p.filter.Active() {
		back = "show all"
	}
	return []screen.Action{a, {Key: keys.As(m.Back, back)}, {Key: m.Filter}}
}

func (p *picker) view(f screen.Frame) string {
	t := f.Theme
	var head, foot []string
	if p.filter.Active() {
		head = append(head, p.filter.View(t, f.Width))
	}
	if it, ok := p.selected(); ok {
		if f.Height >= 9 {
			foot = append(foot, "")
		}
		if it.reason != "" {
			foot = append(foot, "  "+t.Warn.Render(t.Glyphs.Warn+" "+widget.Cut(it.reason, f.Width-4)))
		}
		for _, d := range it.detail {
			for _, l := range widget.Paragraph(t.Muted, d, f.Width-2) {
				foot = append(foot, "  "+l)
			}
		}
		foot = foot[:min(len(foot), max(f.Height/2, 1))]
	}
	if len(p.shown) == 0 {
		return strings.Join(append(head, "", t.Muted.Render("Nothing matches.")), "\n")
	}
	p.height = max(f.Height-len(head)-len(foot), 1)
	from, to := p.nav.Window(len(p.shown), p.height)
	name := 0
	for _, it := range p.shown {
		name = max(name, min(widget.Width(it.name), f.Width/2))
	}
	lines := head
	for i := from; i < to; i++ {
		lines = append(lines, widget.Row(i, p.shown[i].line(t, i == p.nav.Index, name, f.Width)))
	}
	return strings.Join(append(lines, foot...), "\n")
}

func (it item) line(t theme.Theme, selected bool, name, w int) string {
	lead := "  "
	if selected {
		lead = t.Accent.Render(t.Glyphs.Mark) + " "
	}
	right := it.right
	if right != "" && it.level >= present.Warn {
		right = t.Glyphs.Warn + " " + right
	}
	about := widget.Fit(it.about, w-name-6-widget.Width(right))
	switch {
	case selected:
		return lead + t.Selected.Render(widget.Fit(it.name, name)+"  "+about+"  "+right)
	case it.reason != "":
		return lead + t.Faint.Render(widget.Fit(it.name, name)+"  "+about+"  "+right)
	}
	return lead + t.Strong.Render(widget.Fit(it.name, name)) + "  " + t.Muted.Render(about) + "  " +
		t.Level(it.level).Render(right)
}
