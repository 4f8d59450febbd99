package enroll

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// policyPage says what a new key is like: algorithm and policies, each
// explained in a clause.
type policyPage struct {
	m    *wizard
	form widget.Form
}

func newPolicy(m *wizard) *policyPage { return &policyPage{m: m} }

func (p *policyPage) enter(time.Time) tea.Cmd {
	g := p.m.opts.Generate
	focus := p.form.Focus
	p.form = widget.Form{Fields: []*widget.Field{p.algorithms(), p.pins(), p.touches()}, Focus: focus}
	if !p.kind().HasSlots() {
		p.form.Fields = append(p.form.Fields, &widget.Field{ID: "label", Label: "Label",
			Input: widget.NewInput(g.Label, "the enrollment's name"), Note: "The key's name on the token."})
	}
	return nil
}

func (p *policyPage) kind() hsm.Kind { return p.m.opts.Token.Kind() }

func (p *policyPage) algorithms() *widget.Field {
	f := &widget.Field{ID: "algorithm", Label: "Algorithm"}
	for i, a := range hsm.Algorithms() {
		o := widget.Option{Label: string(a), Clause: present.Algorithm(a)}
		if p.m.token != nil {
			o.Reason = p.m.token.Info.Can.Lacks(a)
		}
		if a == present.EnrolledAlgorithm(p.m.opts) {
			f.Index = i
		}
		f.Options = append(f.Options, o)
	}
	return f
}

func (p *policyPage) pins() *widget.Field {
	f := &widget.Field{ID: "pin", Label: "PIN"}
	for i, v := range []hsm.PINPolicy{hsm.PINDefault, hsm.PINOnce, hsm.PINAlways, hsm.PINNever} {
		o := widget.Option{Label: v.String(), Clause: present.PINPolicy(v)}
		if v == hsm.PINNever && !p.kind().Policies {
			o.Reason = "PKCS#11 keys always need a login"
		}
		if v == p.m.opts.Generate.PIN {
			f.Index = i
		}
		f.Options = append(f.Options, o)
	}
	return f
}

func (p *policyPage) touches() *widget.Field {
	f := &widget.Field{ID: "touch", Label: "Touch"}
	if !p.kind().Policies {
		f.Options = []widget.Option{{Label: "never", Clause: "this kind of token has no sensor"}}
		return f
	}
	for i, v := range p.touchPolicies() {
		if v == p.m.opts.Generate.Touch {
			f.Index = i
		}
		f.Options = append(f.Options, widget.Option{Label: v.String(), Clause: present.TouchPolicy(v)})
	}
	return f
}

// touchPolicies are those to choose from. A key gets one of its own where the token can do that.
func (p *policyPage) touchPolicies() []hsm.TouchPolicy {
	own := []hsm.TouchPolicy{hsm.TouchNever, hsm.TouchCached, hsm.TouchAlways}
	if p.m.token != nil && p.m.token.Info.Can.Policies {
		return own
	}
	return append([]hsm.TouchPolicy{hsm.TouchDefault}, own...)
}

// leave takes what the form says.
func (p *policyPage) leave() {
	g := &p.m.opts.Generate
	g.Algorithm = hsm.Algorithms()[p.form.Field("algorithm").Index]
	g.PIN = []hsm.PINPolicy{hsm.PINDefault, hsm.PINOnce, hsm.PINAlways, hsm.PINNever}[p.form.Field("pin").Index]
	if p.kind().Policies {
		g.Touch = p.touchPolicies()[p.form.Field("touch").Index]
	}
	if !p.kind().HasSlots() {
		g.Label = strings.TrimSpace(p.form.Field("label").Input.Value())
	}
}

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

// formActions lists the keys of a form.
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
