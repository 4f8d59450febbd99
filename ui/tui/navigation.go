package tui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/screen/enroll"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// section is a screen of the top level with the screens opened from it. It is made on the first
// visit and keeps running behind others.
type section struct {
	id    screen.ID
	title string
	make  func() screen.Screen
	stack []screen.Screen
}

type navigation struct {
	sections []*section
	at       int // the section in front
}

func number(i int) string { return strconv.Itoa(i) }

func (n *navigation) here() *section { return n.sections[n.at] }

func (n *navigation) begin(o Options, screens *factory) {
	below := cmp.Or(o.Start, ScreenHome)
	if o.Start == ScreenEnroll {
		below = ScreenTokens // the next thing that is looked for
	}
	n.at = slices.IndexFunc(n.sections, func(s *section) bool { return s.id == below })
	first := n.here()
	first.stack = []screen.Screen{first.make()}
	if o.Start == ScreenEnroll {
		screens.given = o.Enroll
		first.stack = append(first.stack, screens.wizard(enroll.Start{Options: o.Enroll}))
	}
}

func (n *navigation) top() screen.Screen {
	stack := n.here().stack
	return stack[len(stack)-1]
}

func (n *navigation) each(f func(screen.Screen)) {
	for _, sec := range n.sections {
		for _, s := range sec.stack {
			f(s)
		}
	}
}

func (n *navigation) update(msg tea.Msg, now time.Time) tea.Cmd {
	var cmds []tea.Cmd
	n.each(func(s screen.Screen) { cmds = append(cmds, s.Update(msg, now)) })
	return tea.Batch(cmds...)
}

func (n *navigation) open(s screen.Screen, now time.Time) tea.Cmd {
	n.here().stack = append(n.here().stack, s)
	return s.Open(now)
}

func (n *navigation) bring(i int, now time.Time) tea.Cmd {
	if i < 0 || i >= len(n.sections) {
		return nil
	}
	n.at = i
	if s := n.here(); len(s.stack) == 0 {
		return n.open(s.make(), now)
	}
	return nil
}

func (n *navigation) goTo(g screen.GoMsg, now time.Time) tea.Cmd {
	i := slices.IndexFunc(n.sections, func(s *section) bool { return s.id == g.To })
	cmd := n.bring(i, now)
	if g.Argument == "" {
		return cmd
	}
	for len(n.here().stack) > 1 { // the screen below is the first one's
		n.pop()
	}
	return tea.Batch(cmd, n.top().Update(screen.ArgumentMsg{To: g.To, Value: g.Argument}, now))
}

func (n *navigation) pop() {
	n.top().Close()
	s := n.here()
	s.stack = s.stack[:len(s.stack)-1]
}

// back closes the top screen, but not the first one of a section: the next letter keeps its
// meaning.
func (n *navigation) back() {
	if len(n.here().stack) > 1 {
		n.pop()
	}
}

func (n *navigation) leave() (why string) {
	n.each(func(s screen.Screen) {
		if w := s.Leave(); w != "" {
			why = w
		}
	})
	return why
}

func (n *navigation) tabs(t theme.Theme, w int) string {
	if len(n.here().stack) > 1 {
		return ""
	}
	var tabs []string
	for i, s := range n.sections {
		switch i {
		case n.at:
			tabs = append(tabs, t.Accent.Render(number(i))+" "+t.Title.Underline().Render(s.title))
		default:
			tabs = append(tabs, widget.Click(widget.ZoneTab+strconv.Itoa(i), t.Muted.Render(number(i)+" "+s.title)))
		}
	}
	if line := strings.Join(tabs, "  "); widget.Width(line) <= w {
		return line
	}
	return ""
}

func (n *navigation) view(t theme.Theme, w int) string {
	if tabs := n.tabs(t, w); tabs != "" {
		return tabs
	}
	stack, line := n.here().stack, ""
	for i, s := range stack {
		if i == len(stack)-1 {
			return line + t.Title.Render(s.Title())
		}
		line += widget.Click(widget.ZoneKey+"esc", t.Muted.Render(s.Title())) + " " + t.Faint.Render(t.Glyphs.Sep+" ")
	}
	return line
}
