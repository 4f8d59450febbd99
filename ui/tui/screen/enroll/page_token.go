package enroll

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// tokenPage chooses the token. A token that is plugged in appears by itself.
type tokenPage struct {
	m    *wizard
	list picker
}

func newToken(m *wizard) *tokenPage { return &tokenPage{m: m} }

func (p *tokenPage) enter(time.Time) tea.Cmd {
	p.fill()
	return nil
}
func (p *tokenPage) leave()          {}
func (p *tokenPage) typing() bool    { return p.list.filter.Typing() }
func (p *tokenPage) animating() bool { return len(p.list.items) == 0 }

func (p *tokenPage) fill() {
	var items []item
	prefer := ""
	for i, v := range p.m.Store.Tokens.Value.Views {
		pin, l := present.PIN(v.Info, nil)
		it := item{
			id: v.Info.URI().String(), index: i, name: present.Token(v.Info),
			about: present.Kind(v.Info) + ", " + keysOn(v), right: pin, level: l,
			reason: present.Unusable(v.Info), detail: []string{facts(v)},
		}
		if v.Err != nil {
			it.detail = append(it.detail, ui.Message(v.Err))
		}
		if o := p.m.opts.Token; o.Scheme != "" && o.TokenOnly().MatchToken(v.Info) || prefer == "" && it.reason == "" &&
			o.Scheme == "" {
			prefer = it.id
		}
		items = append(items, it)
	}
	p.list.set(items, prefer)
}

func keysOn(v hsm.View) string {
	if v.Err != nil {
		return "keys not read"
	}
	n := 0
	for _, s := range v.Slots {
		if s.Key != nil {
			n++
		}
	}
	if n == 0 {
		return "no keys"
	}
	return present.Count(n, "key")
}

func facts(v hsm.View) string {
	parts := []string{}
	add := func(name, value string) {
		if value = strings.TrimSpace(text.Clean(value)); value != "" {
			parts = append(parts, strings.TrimSpace(name+" "+value))
		}
	}
	add("serial", v.Info.Serial)
	add("", v.Info.Manufacturer)
	add("firmware", v.Info.Firmware)
	add("in", v.Info.Reader)
	return strings.Join(parts, ", ")
}

func (p *tokenPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	if _, ok := msg.(store.TokensMsg); ok {
		p.fill()
		return nil
	}
	if p.list.update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Refresh):
		return p.m.Store.LoadTokens(now)
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Enter):
		if it, ok := p.list.selected(); ok && it.reason == "" {
			p.m.chooseToken(p.m.Store.Tokens.Value.Views[it.index])
			return p.m.review(now)
		}
	}
	return nil
}

func (p *tokenPage) actions() []screen.Action {
	if len(p.list.items) == 0 {
		return []screen.Action{{Key: p.m.Keys.Refresh}, {Key: p.m.Keys.Back}}
	}
	a := p.list.actions(p.m.Keys, "choose", "back")
	if p.typing() {
		return a
	}
	return append(a, screen.Action{Key: p.m.Keys.Refresh})
}

func (p *tokenPage) view(f screen.Frame) string {
	t, s := f.Theme, p.m.Store
	lines := heading(t, "Which token will hold the key?", f.Height)
	since, _ := s.Tokens.Loading()
	switch {
	case s.Tokens.Err != nil:
		lines = append(append(lines, widget.Failure(t, s.Tokens.Err, f.Width)...), "")
	case len(p.list.items) == 0 && !s.Tokens.Loaded:
		return strings.Join(append(lines, widget.Working(t, "Looking for tokens", since, f.Now)), "\n")
	}
	if len(p.list.items) == 0 {
		spin := widget.Spinner(t, time.Time{}, f.Now)
		lines = append(lines, spin+" "+t.Text.Render("Insert a token: it shows up here by itself."))
		if n := len(s.Tokens.Value.Problems); n > 0 {
			lines = append(lines, "", t.Warn.Render(t.Glyphs.Warn)+" "+
				t.Muted.Render(fmt.Sprintf("%s could not be read; esc shows which.", present.Count(n, "module"))))
		}
		return strings.Join(lines, "\n")
	}
	return strings.Join(append(lines, p.list.view(f.With(f.Width, f.Height-len(lines)))), "\n")
}
