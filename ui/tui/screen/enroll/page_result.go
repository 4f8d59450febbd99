package enroll

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// resultPage shows the user and rights in the cluster and the next command. A new PUK comes first,
// and disappears once the person has kept it; a program that ends earlier shows it once more
// ([screen.ResultMsg]).
type resultPage struct {
	m      *wizard
	scroll widget.Scroll
}

type keptMsg struct{}

func newResult(m *wizard) *resultPage { return &resultPage{m: m} }

func (p *resultPage) enter(time.Time) tea.Cmd {
	p.scroll.Top()
	return nil
}

func (p *resultPage) leave()          { p.m.Store.Running = nil }
func (p *resultPage) typing() bool    { return false }
func (p *resultPage) animating() bool { return false }

// unkept is the reason why the page must stay, "" if there is none.
func (p *resultPage) unkept() string {
	if p.m.at != stageResult || p.m.result.PUK.Len() == 0 {
		return ""
	}
	return "The new PUK is not shown again. Have you saved it?"
}

func (p *resultPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	if _, ok := msg.(keptMsg); ok {
		p.m.result.PUK.Zero()
		return screen.Send(screen.BackMsg{})
	}
	k, ok := msg.(tea.KeyPressMsg)
	if !ok {
		return nil
	}
	if cmd, ok := p.acts().Press(k); ok {
		return cmd
	}
	p.scroll.Update(k, p.m.Keys)
	return nil
}

// done leaves the page, and asks first if a PUK is on it.
func (p *resultPage) done() tea.Cmd {
	why := p.unkept()
	if why == "" {
		return screen.Send(screen.BackMsg{})
	}
	d := dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Leave the PUK behind?", Detail: why}, p.m.Keys,
		screen.Send(keptMsg{}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *resultPage) acts() screen.Acts {
	k, r := p.m.Keys, p.m.result
	act := func(b key.Binding, quiet bool, m tea.Msg) screen.Act {
		return screen.Act{Action: screen.Action{Key: b, Quiet: quiet}, Do: func() tea.Cmd { return screen.Send(m) }}
	}
	all := screen.Acts{{Action: screen.Action{Key: keys.As(k.Enter, "done")}, Do: p.done}}
	if r.PUK.Len() > 0 {
		all = append(all, act(keys.Letter("P", "copy the PUK"), false,
			screen.CopyMsg{What: "PUK", Text: string(r.PUK.Bytes())}))
	}
	copies := act(keys.As(k.Copy, "copy the commands"), false,
		screen.CopyMsg{What: "next commands", Text: strings.Join(r.Next, "\n")})
	if !r.Rights && r.Ask != "" {
		copies = act(keys.As(k.Copy, "copy what to ask for"), false, screen.CopyMsg{What: "line for an admin", Text: r.Ask})
	}
	return append(all, copies,
		act(k.CopyPrint, true, screen.CopyMsg{What: "fingerprint", Text: r.Fingerprint}),
		act(k.Command, true, screen.CommandMsg{Title: "Next", Lines: r.Next}),
		screen.Act{Action: screen.Action{Key: keys.As(k.Back, "done"), Quiet: true}, Do: p.done})
}

func (p *resultPage) actions() []screen.Action { return p.acts().Actions() }

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
	lines = append(lines, p.puk(f)...)
	lines = append(lines, widget.Sections(t, present.Mend(r), f.Width)...)
	if !r.Rights && r.Ask != "" {
		lines = append(lines, "", t.Text.Render(present.AskTitle+":"))
		for _, l := range strings.Split(text.CleanLines(r.Ask), "\n") {
			wrap("  ", l)
		}
	}
	lines = append(lines, "")
	lines = append(lines, widget.Facts(t, present.ResultFacts(r, f.Now), f.Width)...)
	lines = append(lines, notes(t, r.Notes, f.Width)...)
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

func (p *resultPage) puk(f screen.Frame) []string {
	t, r := f.Theme, p.m.result
	if r.PUK.Len() == 0 {
		return nil
	}
	what, keep := present.FreshPUK(r)
	lines := append([]string{""}, widget.Paragraph(t.Text, what+":", f.Width)...)
	lines = append(lines, "  "+t.Strong.Render(string(r.PUK.Bytes())))
	return append(lines, widget.Paragraph(t.Warn, keep, f.Width)...)
}
