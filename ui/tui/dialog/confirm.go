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
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Confirm asks a yes-or-no question. The button for no has the focus unless
// the prompt says otherwise; where something must be typed for a yes there are
// no buttons.
type Confirm struct {
	base
	prompt hsm.ConfirmPrompt
	keys   keys.Map
	guard  guard
	reply  *reply[bool]
	yes    tea.Cmd
	onYes  bool // the focus
	input  widget.Input
	scroll widget.Scroll
	long   bool // the detail does not fit: up and down scroll it
}

// NewConfirm returns a dialog that a screen opens itself; yes runs after a yes.
func NewConfirm(p hsm.ConfirmPrompt, k keys.Map, yes tea.Cmd) *Confirm {
	return &Confirm{prompt: p, keys: k, yes: yes, onYes: p.DefaultYes}
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
	if d.prompt.Type != "" {
		return []screen.Action{act(keys.As(d.keys.Enter, "confirm")), act(keys.As(d.keys.Back, "cancel"))}
	}
	return []screen.Action{act(d.keys.Yes), act(d.keys.No), act(keys.As(d.keys.Back, "cancel"))}
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
	case isKey && d.long && k.Text == "" && d.scroll.Update(k, d.keys):
	case d.prompt.Type != "":
		if isKey && key.Matches(k, d.keys.Enter) {
			if d.input.Value() == d.prompt.Type {
				return d.answer(true)
			}
			return false, nil
		}
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
	t, w := f.Theme, f.Width
	lines := d.detail(f)
	if d.prompt.Type != "" {
		ask := question.Type(d.prompt)
		lines = append(lines, widget.Paragraph(t.Text, ask, w)...)
		return strings.Join(append(lines, t.Accent.Render(t.Glyphs.Sep)+" "+d.input.View(t, w-2, true)), "\n")
	}
	button := func(label string, focused bool) string {
		if focused {
			return t.Accent.Render(t.Glyphs.Mark) + t.Button.Render(" "+label+" ")
		}
		return " " + t.Muted.Render(" "+label+" ")
	}
	return strings.Join(append(lines, button("No", !d.onYes)+"  "+button("Yes", d.onYes)), "\n")
}

// detail draws what stands above the question, as much as there is room for. A
// unified diff at its end is drawn as one.
func (d *Confirm) detail(f screen.Frame) []string {
	if len(d.prompt.Fields) > 0 {
		return about(f, d.prompt.Notice, d.prompt.Fields, 1)
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
	room := max(f.Height-5, 1) // the answer and the keys stay in view
	if d.long = len(lines) > room; d.long {
		lines = strings.Split(d.scroll.View(f.Theme, lines, f.Width, room), "\n")
	}
	return append(lines, "")
}

// about draws what a question is about, with so many lines of the dialog left below it.
func about(f screen.Frame, notice string, fields []hsm.Field, below int) []string {
	var lines []string
	if notice != "" {
		notice = question.Notice(notice, question.Room{Columns: f.Width, Rows: f.Height})
		lines = widget.Paragraph(f.Theme.Warn, notice, f.Width)
	}
	room := question.Room{Columns: f.Width + 1, Rows: max(f.Height-below-len(lines), 1)}
	for _, l := range question.Fields(fields, room) {
		lines = append(lines, f.Theme.Text.Render(l))
	}
	if len(lines)+below < f.Height {
		lines = append(lines, "")
	}
	return lines
}

// Width tells how wide the dialog would like to be.
func (d *Confirm) Width() int {
	if len(d.prompt.Fields) > 0 || strings.Count(d.prompt.Detail, "\n") > 8 { // a difference, mostly
		return 100
	}
	return 64
}
