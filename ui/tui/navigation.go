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

// section is one screen of the top level and what was opened from it. It is
// made when it is first gone to and goes on when another one is in front.
type section struct {
	id    screen.ID
	title string
	make  func() screen.Screen
	stack []screen.Screen
}

// navigation is where we are: the sections, one of them in front, and in it the
// screens that were opened one from another.
type navigation struct {
	sections []*section
	at       int // the section in front
}

// number is the key of the section at index i.
func number(i int) string { return strconv.Itoa(i) }

func (n *navigation) here() *section { return n.sections[n.at] }

// begin puts the screen in front that the program opens with.
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

// top is the screen in front.
func (n *navigation) top() screen.Screen {
	stack := n.here().stack
	return stack[len(stack)-1]
}

// each calls f for every screen, also those that are not in front.
func (n *navigation) each(f func(screen.Screen)) {
	for _, sec := range n.sections {
		for _, s := range sec.stack {
			f(s)
		}
	}
}

// update gives msg to every screen.
func (n *navigation) update(msg tea.Msg, now time.Time) tea.Cmd {
	var cmds []tea.Cmd
	n.each(func(s screen.Screen) { cmds = append(cmds, s.Update(msg, now)) })
	return tea.Batch(cmds...)
}

// open puts a screen in front, in the section where we are.
func (n *navigation) open(s screen.Screen, now time.Time) tea.Cmd {
	n.here().stack = append(n.here().stack, s)
	return s.Open(now)
}

// bring brings the section at index i to the front; others go on behind it.
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

// goTo brings a section to the front, and has it show what g names.
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

// pop takes the top screen off.
func (n *navigation) pop() {
	n.top().Close()
	s := n.here()
	s.stack = s.stack[:len(s.stack)-1]
}

// back takes the top screen off. The first of a section stays: the next letter means what
// it meant.
func (n *navigation) back() {
	if len(n.here().stack) > 1 {
		n.pop()
	}
}

// leave says why leaving wants a second thought, "" if it does not.
func (n *navigation) leave() (why string) {
	n.each(func(s screen.Screen) {
		if w := s.Leave(); w != "" {
			why = w
		}
	})
	return why
}

// tabs draws the screens of the top level, "" where one is below them or w is too little.
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

// view draws where we are: the screens of the top level, or the way to one below
// them.
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
