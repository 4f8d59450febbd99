package enroll

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// resultPage shows who the cluster says we are, what that may do, and what to
// type next.
type resultPage struct {
	m      *wizard
	scroll widget.Scroll
}

func newResult(m *wizard) *resultPage { return &resultPage{m: m} }

func (p *resultPage) enter(time.Time) tea.Cmd {
	p.scroll.Top()
	return nil
}
func (p *resultPage) leave()          {}
func (p *resultPage) typing() bool    { return false }
func (p *resultPage) animating() bool { return false }

func (p *resultPage) update(msg tea.Msg, _ time.Time) tea.Cmd {
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Enter), key.Matches(k, p.m.Keys.Back):
		return screen.Send(screen.BackMsg{})
	case key.Matches(k, p.m.Keys.Copy):
		return screen.Send(p.copied())
	case key.Matches(k, p.m.Keys.CopyPrint):
		return screen.Send(screen.CopyMsg{What: "fingerprint", Text: p.m.result.Fingerprint})
	case key.Matches(k, p.m.Keys.Command):
		return screen.Send(screen.CommandMsg{Title: "Next", Lines: p.m.result.Next})
	default:
		p.scroll.Update(k, p.m.Keys)
	}
	return nil
}

// copied is what c copies: the line for an admin where rights are missing,
// else what to type next.
func (p *resultPage) copied() screen.CopyMsg {
	if !p.m.result.Rights && p.m.result.Ask != "" {
		return screen.CopyMsg{What: "line for an admin", Text: p.m.result.Ask}
	}
	return screen.CopyMsg{What: "next commands", Text: strings.Join(p.m.result.Next, "\n")}
}

func (p *resultPage) actions() []screen.Action {
	k := p.m.Keys
	copyAs := "copy the commands"
	if !p.m.result.Rights && p.m.result.Ask != "" {
		copyAs = "copy what to ask for"
	}
	return []screen.Action{{Key: keys.As(k.Enter, "to the tokens")}, {Key: keys.As(k.Copy, copyAs)},
		{Key: k.CopyPrint, Quiet: true}, {Key: k.Command, Quiet: true}, {Key: keys.As(k.Back, "to the tokens"), Quiet: true}}
}

func (p *resultPage) view(f screen.Frame) string {
	t, r := f.Theme, p.m.result
	var lines []string
	wrap := func(head, s string) {
		for i, l := range text.Wrap(s, max(f.Width-2, 1)) {
			if i > 0 {
				head = "  "
			}
			lines = append(lines, head+t.Text.Render(l))
		}
	}
	lines = append(lines, t.Good.Render(t.Glyphs.Done)+" "+t.Title.Render(widget.Cut(present.Enrolled(r), f.Width-2)))
	if !r.Rights && r.Ask != "" {
		lines = append(lines, "", t.Text.Render(present.AskTitle+":"))
		for _, l := range strings.Split(text.CleanLines(r.Ask), "\n") {
			wrap("  ", l)
		}
	}
	lines = append(lines, "")
	lines = append(lines, widget.Facts(t, present.ResultFacts(r, f.Now), f.Width)...)
	for _, n := range r.Notes {
		wrap(t.Accent.Render(t.Glyphs.Dot)+" ", text.Clean(n))
	}
	if len(r.Next) > 0 {
		lines = append(lines, "", t.Title.Render(present.NextTitle))
		for _, c := range r.Next {
			wrap(t.Accent.Render("$ "), text.Clean(c))
		}
	}
	lines = append(lines, "", t.Title.Render("On record"))
	lines = append(lines, widget.Facts(t, present.RecordFacts(r), f.Width)...)
	return p.scroll.View(t, lines, f.Width, f.Height)
}
