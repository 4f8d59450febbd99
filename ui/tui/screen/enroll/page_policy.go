package enroll

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

type policyPage struct {
	m       *wizard
	form    widget.Form
	options []verb.Option
}

func newPolicy(m *wizard) *policyPage { return &policyPage{m: m} }

func (p *policyPage) enter(time.Time) tea.Cmd {
	flags := []string{"algorithm", "pin-policy", "touch-policy"}
	if !p.m.opts.Token.Kind().HasSlots() {
		flags = append(flags, "label")
	}
	p.options = enrolling.Form(&p.m.opts, flags...)
	var can *hsm.Abilities
	if p.m.token != nil {
		can = &p.m.token.Info.Can
	}
	present.KeyChoices(p.options, p.m.opts.Token.Kind(), can)
	p.form = widget.Form{Fields: widget.Fields(p.options), Focus: p.form.Focus}
	return nil
}

func (p *policyPage) leave() { p.form.Take(p.options) }

func (p *policyPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	if p.form.Update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Enter):
		return p.m.review(now)
	}
	return nil
}

func (p *policyPage) typing() bool    { return p.form.Typing() }
func (p *policyPage) animating() bool { return false }

func (p *policyPage) actions() []screen.Action { return formActions(&p.form, p.m.Keys, "continue") }

func formActions(f *widget.Form, k keys.Map, enter string) []screen.Action {
	a := []screen.Action{{Key: keys.As(k.Enter, enter)}, {Key: k.Next}}
	if x := f.Focused(); x != nil && x.Choice() {
		choose := keys.As(k.Up, "choose")
		choose.SetHelp("↑↓", "choose")
		a = append(a, screen.Action{Key: choose})
	}
	return append(a, screen.Action{Key: k.Back}, screen.Action{Key: k.Prev, Quiet: true})
}

func (p *policyPage) view(f screen.Frame) string {
	lines := heading(f.Theme, "Settings of the new key", f.Height)
	return strings.Join(append(lines, p.form.View(f.Theme, f.Width, f.Height-len(lines))), "\n")
}
