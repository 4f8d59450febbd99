package dialog

import (
	"errors"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Text shows something until it is dismissed: lines, or an error with its hint.
type Text struct {
	base
	title  string
	tone   Tone
	draw   func(t theme.Theme, w int) []string
	copy   screen.CopyMsg
	keys   keys.Map
	scroll widget.Scroll
}

// NewText returns a dialog for m.
func NewText(k keys.Map, m screen.TextMsg) *Text {
	return &Text{title: m.Title, keys: k, copy: screen.CopyMsg{What: m.What, Text: m.Copy},
		draw: func(t theme.Theme, w int) []string {
			var lines []string
			for _, l := range m.Lines {
				lines = append(lines, widget.Paragraph(t.Text, text.Clean(l), w)...)
			}
			return append(lines, widget.Sections(t, m.Sections, w)...)
		}}
}

// NewFailure returns a dialog for an error.
func NewFailure(k keys.Map, m screen.FailureMsg) *Text {
	d := &Text{title: m.Title, tone: Caution, keys: k, draw: func(t theme.Theme, w int) []string {
		return widget.Failure(t, m.Err, w)
	}}
	var forbidden interface{ Grant() string }
	if errors.As(m.Err, &forbidden) {
		d.copy = screen.CopyMsg{What: "role", Text: forbidden.Grant()}
	}
	return d
}

// Title implements [Dialog].
func (d *Text) Title() string { return text.Clean(d.title) }

// Tone implements [Dialog].
func (d *Text) Tone() Tone { return d.tone }

// Actions implements [Dialog].
func (d *Text) Actions() []screen.Action {
	a := []screen.Action{act(keys.As(d.keys.Back, "close"))}
	if d.copy.Text != "" {
		a = append(a, act(keys.As(d.keys.Copy, "copy "+d.copy.What)))
	}
	return a
}

// Update implements [Dialog].
func (d *Text) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok || d.scroll.Update(k, d.keys):
		return false, nil
	case d.copy.Text != "" && key.Matches(k, d.keys.Copy):
		return false, screen.Send(d.copy)
	}
	return key.Matches(k, d.keys.Back, d.keys.Quit, d.keys.Enter), nil
}

// View implements [Dialog].
func (d *Text) View(f screen.Frame) string {
	lines := d.draw(f.Theme, f.Width)
	return d.scroll.View(f.Theme, lines, f.Width, min(len(lines), max(f.Height-2, 1)))
}

// Width tells how wide the dialog would like to be.
func (d *Text) Width() int { return 84 }
