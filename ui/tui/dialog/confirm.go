package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present/question"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Confirm asks a yes-or-no question. The button for no has the focus unless
// the prompt says otherwise; where something must be typed for a yes there are
// no buttons.
type Confirm struct {
	base
	prompt  hsm.ConfirmPrompt
	account account
	keys    keys.Map
	guard   guard
	reply   *reply[bool]
	yes     tea.Cmd
	onYes   bool // yes has the focus
	input   widget.Input
	wrong   bool // the words that were entered are not what the prompt wants
	scroll  widget.Scroll
	long    bool // the detail does not fit and scrolls
}

// NewConfirm returns a dialog that a screen opens itself; yes runs after a yes.
func NewConfirm(p hsm.ConfirmPrompt, k keys.Map, yes tea.Cmd) *Confirm {
	return &Confirm{prompt: p, account: account{notice: p.Notice, fields: p.Fields, keys: k}, keys: k, yes: yes,
		onYes: p.DefaultYes}
}

// Title implements [Dialog].
func (d *Confirm) Title() string { return text.Clean(d.prompt.Question) }

// Tone implements [Dialog].
func (d *Confirm) Tone() Tone {
	if d.prompt.DefaultYes {
		return Plain
	}
	return Caution
}

// Open implements [Dialog].
func (d *Confirm) Open(now time.Time) tea.Cmd {
	d.guard.open(now)
	return nil
}

// Drop implements [Dialog].
func (d *Confirm) Drop() {
	if d.reply != nil {
		d.reply.cancel()
	}
}

// Actions implements [Dialog].
func (d *Confirm) Actions() []screen.Action {
	if d.prompt.ByTyping() {
		return []screen.Action{act(keys.As(d.keys.Enter, "confirm")), act(keys.As(d.keys.Back, "cancel"))}
	}
	more := d.account.actions()
	if d.long {
		more = []screen.Action{act(keys.Shown(d.keys.Down, "↑↓", "scroll"))}
	}
	return append(more, act(keys.As(d.keys.Back, "cancel"))) // the buttons show the keys for yes and no
}

// Update implements [Dialog].
func (d *Confirm) Update(msg tea.Msg, now time.Time) (bool, tea.Cmd) {
	if d.guard.drops(msg, now) {
		return false, nil
	}
	k, isKey := msg.(tea.KeyPressMsg)
	switch {
	case isKey && key.Matches(k, d.keys.Back):
		return true, nil
	case isKey && d.account.update(k):
	case isKey && d.long && !(d.prompt.ByTyping() && widget.Edits(k)) && k.Text == "" && d.scroll.Update(k, d.keys):
	case d.prompt.ByTyping():
		if isKey && key.Matches(k, d.keys.Enter) {
			if d.prompt.Accepts(d.input.Value()) {
				return d.answer(true)
			}
			d.wrong = true
			return false, nil
		}
		d.wrong = false
		d.input.Update(msg)
	case !isKey:
	case key.Matches(k, d.keys.Yes):
		return d.answer(true)
	case key.Matches(k, d.keys.No):
		return d.answer(false)
	case key.Matches(k, d.keys.Enter):
		return d.answer(d.onYes)
	case key.Matches(k, d.keys.Left, d.keys.Right, d.keys.Next, d.keys.Prev, d.keys.Up, d.keys.Down):
		d.onYes = !d.onYes
	}
	return false, nil
}

func (d *Confirm) answer(yes bool) (bool, tea.Cmd) {
	if d.reply != nil {
		d.reply.give(yes)
	}
	if yes {
		return true, d.yes
	}
	return true, nil
}

// View implements [Dialog].
func (d *Confirm) View(f screen.Frame) string {
	answer := d.answers(f.Theme, f.Width)
	return strings.Join(append(d.detail(f, len(answer)), answer...), "\n")
}

func (d *Confirm) answers(t theme.Theme, w int) []string {
	if d.prompt.ByTyping() {
		lines := append(widget.Paragraph(t.Text, question.Type(d.prompt), w),
			t.Accent.Render(t.Glyphs.Sep)+" "+d.input.View(t, w-2, true))
		if d.wrong {
			lines = append(lines, widget.Paragraph(t.Bad, t.Glyphs.Failed+" "+question.NoMatch, w)...)
		}
		return lines
	}
	button := func(label string, k key.Binding, focused bool) string {
		lead, style := " ", t.Muted
		if focused {
			lead, style = t.Accent.Render(t.Glyphs.Mark), t.Button
		}
		name := k.Help().Key
		return widget.Click(widget.ZoneKey+name, lead+style.Render(" "+label+" ")+" "+t.Accent.Render(name))
	}
	return []string{button("No", d.keys.No, !d.onYes) + "   " + button("Yes", d.keys.Yes, d.onYes)}
}

// detail draws as much above the answer as fits. A unified diff at the end of the detail is
// coloured.
func (d *Confirm) detail(f screen.Frame, below int) []string {
	if d.account.some() {
		return d.account.view(f, below)
	}
	if d.prompt.Detail == "" {
		return nil
	}
	words, diff := d.prompt.Detail, ""
	if i := strings.Index("\n"+words, "\n--- "); i >= 0 && strings.Contains(words[i:], "\n+++ ") {
		words, diff = words[:i], words[i:]
	}
	var lines []string
	if words = strings.TrimRight(words, "\n"); words != "" {
		for _, l := range strings.Split(text.CleanLines(words), "\n") {
			lines = append(lines, widget.Paragraph(f.Theme.Text, l, f.Width)...)
		}
	}
	if diff != "" {
		lines = append(lines, widget.Diff(f.Theme, diff, f.Width)...)
	}
	room := max(f.Height-below-1, 1) // the answer stays in view, below an empty line
	if d.long = len(lines) > room; d.long {
		lines = strings.Split(d.scroll.View(f.Theme, lines, f.Width, room), "\n")
	}
	return append(lines, "")
}

// Width tells how wide the dialog would like to be.
func (d *Confirm) Width() int {
	if len(d.prompt.Fields) > 0 || strings.Count(d.prompt.Detail, "\n") > 8 { // a difference, mostly
		return 100
	}
	return 64
}
