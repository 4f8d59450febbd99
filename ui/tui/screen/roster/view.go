package roster

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t := f.Theme
	var head []string
	switch {
	case m.err != nil:
		head = append(widget.Failure(t, m.err, f.Width), t.Muted.Render("r tries again."))
	case m.unasked != "":
		shown := ""
		if !m.seenAt.IsZero() {
			shown = present.SeenAt(m.seenAt)
		}
		head = widget.Lines(t, present.Unasked(m.unasked, shown, "the roster"), f.Width)
	case !m.loaded:
		head = append(head, widget.Working(t, "Asking the cluster", m.job.Began, f.Now))
	}
	if !m.seenAt.IsZero() {
		head = append(head, widget.Paragraph(t.Muted, present.Stages(m.board), f.Width)...)
		if m.board.Unknown != "" {
			head = append(head, widget.Lines(t, []present.Line{present.RosterUnknown(m.board.Unknown)}, f.Width)...)
		}
		if len(m.board.Tokens) == 0 {
			head = append(head, t.Muted.Render("i imports a list of tokens and their owners."))
		}
	}
	if m.tokens.Len() == 0 {
		return widget.Block(strings.Join(head, "\n"), f.Width, f.Height)
	}
	m.tokens.Cells = func(e desk.RosterEntry) []widget.Cell {
		r := present.RosterRowOf(e, f.Now)
		return []widget.Cell{{Text: r.Stage.Words, Style: t.Level(r.Stage.Level)}, {Text: r.Owner, Style: t.Strong},
			{Text: r.Serial, Style: t.Text}, {Text: r.Good.Words, Style: t.Level(r.Good.Level)},
			{Text: r.Groups, Style: t.Text}, {Text: r.Model, Style: t.Muted}}
	}
	foot := m.foot(f)
	room := f.Height - len(head) - len(foot)
	if room < 4 {
		foot, room = nil, f.Height-len(head)
	}
	return strings.Join(append(append(head, m.tokens.View(t, f.Width, room)), foot...), "\n")
}

// foot says of the selected token which request waits, or why it was denied.
func (m *Model) foot(f screen.Frame) []string {
	e, ok := m.tokens.Selected()
	if !ok || e.Request == "" {
		return nil
	}
	line := "Request " + text.Clean(e.Request) + " waits for a decision."
	if e.Stage == desk.StageDenied {
		line = "Request " + text.Clean(e.Request) + " was denied: " + present.Note(e.Why)
	}
	lines := widget.Paragraph(f.Theme.Warn, line, f.Width)
	return append([]string{""}, lines[:min(len(lines), f.Height/3)]...)
}
