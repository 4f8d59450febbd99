package requests

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// View implements [screen.Screen].
func (m *Model) View(f screen.Frame) string {
	t := f.Theme
	var head []string
	if m.list.Len() > 0 || m.loaded && m.err == nil { // 0 counts only after the requests were read
		head = append(head, widget.Cut(m.summary(t), f.Width))
	}
	if m.forbidden != nil {
		head = append(head, widget.Paragraph(t.Warn,
			t.Glyphs.Warn+
				" You may not list the requests in this cluster: what was filed from here is shown. o shows the role to "+
				"ask for.", f.Width)...)
	}
	switch {
	case m.unasked != "":
		shown := "What was filed from here is shown."
		if !m.record {
			shown = present.SeenAt(m.readAt)
		}
		head = append(head, widget.Lines(t, present.Unasked(m.unasked, shown, "the cluster's requests"), f.Width)...)
	case m.err != nil:
		head = append(head, widget.Failure(t, m.err, f.Width)...)
		head = append(head, t.Muted.Render("r tries again."))
	case !m.loaded:
		head = append(head, widget.Working(t, "Asking the cluster", m.job.Began, f.Now))
	case m.list.Len() == 0:
		head = append(head, "", t.Text.Render(m.which.none()))
	}
	if f.Height >= 16 {
		head = append(head, "")
	}
	if m.list.Len() == 0 {
		return widget.Block(strings.Join(head, "\n"), f.Width, f.Height)
	}
	m.list.Cells = func(r row) []widget.Cell {
		user := r.user
		if r.warnings > 0 {
			user = t.Glyphs.Warn + " " + user
		}
		return []widget.Cell{{Text: present.Age(f.Now.Sub(r.created)), Style: t.Muted},
			{Text: r.state, Style: t.Level(present.RequestLevel(r.state))}, {Text: user, Style: t.Strong},
			{Text: r.groups, Style: t.Text}, {Text: r.requester, Style: t.Muted}, {Text: text.Clean(r.name), Style: t.Muted},
			{Text: r.signer, Style: t.Faint}}
	}
	return strings.Join(append(head, m.list.View(t, f.Width, f.Height-len(head))), "\n")
}

func (w which) none() string {
	const appear = " New requests appear here by themselves"
	return map[which]string{
		pending: "No request waits for a decision." + appear + "; tab shows all.",
		all:     present.NoRequests + appear + ".",
		mine:    "No requests were filed from here. Those of enrollments are listed for an hour.",
	}[w]
}

func (m *Model) summary(t theme.Theme) string {
	what := map[which]string{pending: "pending", all: "in all", mine: "filed from here"}[m.which]
	if m.record {
		what = "filed from here"
	}
	n := present.Count(m.list.Len(), "request") + " " + what
	if m.list.Filter.Active() {
		n = present.Count(m.list.Shown(), "request") + " of " + n
	}
	live := ""
	if m.job.Active() && m.loaded {
		live = "  " + t.Good.Render(t.Glyphs.Dot) + " " + t.Muted.Render("live")
	}
	return t.Muted.Render(n) + live
}
