package dialog

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Entry is one line of the palette. Its texts are clean.
type Entry struct {
	Name string
	Key  string // key that does the same
	// Verbs are commands that do the same, or lead there, by which it is found too. Finds are
	// other words for that, raw.
	Verbs []string
	Finds string
	// Reason says why it cannot be used now, "" if it can.
	Reason  string
	Message tea.Msg // sent when the entry is chosen
}

// Holds reports whether every word, in lower case, is in what the entry is found by.
func (e Entry) Holds(words []string) bool {
	return holds(e.Name+" "+e.Finds+" "+strings.Join(e.Verbs, " "), words)
}

func holds(s string, words []string) bool {
	s = strings.ToLower(s)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
}

// Palette finds a command by its name.
type Palette struct {
	base
	title          string
	entries, shown []Entry
	more           func(words []string) []Entry // finds further entries by what is typed; may be nil
	keys           keys.Map
	input          widget.Input
	nav            widget.Nav
	height         int
}

// NewPalette returns a palette of entries, and of those that more finds by words in lower
// case; more may be nil.
func NewPalette(k keys.Map, entries []Entry, more func(words []string) []Entry) *Palette {
	return &Palette{title: "Commands", entries: entries, shown: entries, more: more, keys: k,
		input: widget.NewInput("", "what do you want to do?"), height: 1}
}

// NewChoice returns a palette of other things under a title, raw.
func NewChoice(k keys.Map, title string, entries []Entry) *Palette {
	d := NewPalette(k, entries, nil)
	d.title, d.input = title, widget.NewInput("", "type to find")
	return d
}

// Title implements [Dialog].
func (d *Palette) Title() string { return text.Clean(d.title) }

// Actions implements [Dialog].
func (d *Palette) Actions() []screen.Action {
	run := screen.Action{Key: keys.As(d.keys.Enter, "do it")}
	if e, ok := d.selected(); !ok {
		run.Reason = "nothing matches"
	} else {
		run.Reason = e.Reason
	}
	return []screen.Action{
		run,
		{Key: keys.As(d.keys.Next, "complete"), Reason: screen.When(len(d.shown) == 0, run.Reason)},
		act(keys.As(d.keys.Back, "close")),
	}
}

func (d *Palette) selected() (Entry, bool) {
	if d.nav.Index >= len(d.shown) {
		return Entry{}, false
	}
	return d.shown[d.nav.Index], true
}

// Update implements [Dialog].
func (d *Palette) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	if d.nav.Click(msg, len(d.shown)) {
		return false, nil
	}
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch s := k.String(); {
		case key.Matches(k, d.keys.Back), s == "ctrl+p":
			return true, nil
		case key.Matches(k, d.keys.Enter):
			e, ok := d.selected()
			if !ok || e.Reason != "" {
				return false, nil
			}
			return true, screen.Send(e.Message)
		case key.Matches(k, d.keys.Next):
			if e, ok := d.selected(); ok {
				d.input.Set(e.Name)
				d.filter()
			}
			return false, nil
		case !widget.Edits(k) && d.nav.Update(k, d.keys, len(d.shown), d.height): // letters are text
			return false, nil
		}
	}
	if d.input.Update(msg) {
		d.filter()
	}
	return false, nil
}

// filter shows first the entries whose name holds every word typed, then those that match by a
// command or alias, then objects.
func (d *Palette) filter() {
	words := strings.Fields(strings.ToLower(d.input.Value()))
	all := d.entries
	if d.more != nil && len(words) > 0 {
		all = slices.Concat(all, d.more(words))
	}
	d.shown = nil
	var byVerb []Entry
	for _, e := range all {
		if holds(e.Name, words) {
			d.shown = append(d.shown, e)
		} else if e.Holds(words) {
			if i := slices.IndexFunc(e.Verbs, func(verb string) bool { return holds(verb, words) }); i >= 0 {
				e.Name += " (kubehsm " + e.Verbs[i] + ")"
			}
			byVerb = append(byVerb, e)
		}
	}
	d.shown = append(d.shown, byVerb...)
	d.nav = widget.Nav{}
}

// View implements [Dialog].
func (d *Palette) View(f screen.Frame) string {
	t := f.Theme
	d.height = max(min(len(d.entries), f.Height-4), 1) // the whole list's: it does not jump while typing
	lines := []string{t.Accent.Render(":") + " " + d.input.View(t, f.Width-2, true), ""}
	from, to := d.nav.Window(len(d.shown), d.height)
	for i := from; i < to; i++ {
		e := d.shown[i]
		lead, room := "  ", f.Width-2-8
		name := widget.Fit(e.Name, room)
		switch {
		case e.Reason != "":
			name = t.Faint.Render(widget.Fit(e.Name+" ("+e.Reason+")", room))
		case i == d.nav.Index:
			name = t.Selected.Render(name)
		default:
			name = t.Text.Render(name)
		}
		if i == d.nav.Index {
			lead = t.Accent.Render(t.Glyphs.Mark) + " "
		}
		lines = append(lines, widget.Row(i, lead+name+" "+t.Muted.Render(widget.Fit(e.Key, 7))))
	}
	if len(d.shown) == 0 {
		lines = append(lines, t.Muted.Render("  Nothing matches."))
	}
	return widget.Block(strings.Join(lines, "\n"), f.Width, d.height+2)
}

// Width tells how wide the dialog would like to be.
func (d *Palette) Width() int { return 72 }
