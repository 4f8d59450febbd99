package enroll

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

type subjectPage struct {
	m        *wizard
	form     widget.Form
	options  []verb.Option
	defaults task.Handle
	found    enrolling.Options // options that are filled in where nothing is typed
}

type defaultsMsg struct {
	id   task.ID
	opts enrolling.Options
}

func newSubject(m *wizard) *subjectPage { return &subjectPage{m: m} }

func (p *subjectPage) enter(now time.Time) tea.Cmd {
	const day = 24 * time.Hour
	lifetimes := []time.Duration{0, 8 * time.Hour, day, 7 * day, 90 * day, 365 * day}
	if d := p.m.opts.Expiration; !slices.Contains(lifetimes, d) {
		lifetimes = append(lifetimes, d)
	}
	p.options = enrolling.Form(&p.m.opts, "user", "group", "expiration", "name", "keep-current", "reason")
	p.options[0].Required = false // a user who is found takes its place
	p.options[2].Choices = present.Lifetimes(lifetimes...)
	p.options[4].Choices = []verb.Choice{
		{Value: "false", Label: "yes", Clause: "kubectl uses the new context from then on"},
		{Value: "true", Label: "no", Clause: "the current context stays"}}
	p.form = widget.Form{Focus: p.form.Focus, Fields: widget.Fields(p.options)}
	return p.ask(now)
}

// ask finds the defaults for what was left open.
func (p *subjectPage) ask(now time.Time) tea.Cmd {
	p.defaults.Cancel()
	o := p.m.opts
	o.User, o.Groups = "", nil // a name that was typed may be removed again
	h, cmd := p.m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		// An error is not shown here: what is missing may be typed yet, and the
		// review says what remains. What could be filled in comes with it.
		full, err := p.m.Enroller.Complete(ctx, o)
		if err != nil && full.Name == "" {
			return nil
		}
		return defaultsMsg{id: id, opts: full}
	})
	p.defaults = h
	return cmd
}

// propose shows the defaults in empty fields. The default groups are those of the default user.
func (p *subjectPage) propose() {
	found := p.found
	if p.form.Field("user").Input.Value() != "" {
		found.Groups = nil
	}
	for _, o := range enrolling.Form(&found, "user", "group", "name") {
		p.form.Field(o.Flag).Input.Placeholder = text.Clean(cmp.Or(o.Text(), o.Empty))
	}
}

func (p *subjectPage) leave() {
	p.defaults.Cancel()
	p.form.Take(p.options)
}

func (p *subjectPage) check() bool {
	p.form.Take(p.options)
	user, name, o := p.form.Field("user"), p.form.Field("name"), p.m.opts
	if o.User == "" && p.found.User == "" {
		user.Problem = "a user name is needed"
	}
	if slices.Contains(o.Groups, "system:masters") {
		p.form.Field("group").Problem = "API servers refuse requests for system:masters"
	}
	if o.Name != "" && enrollment.ValidName(o.Name) != nil {
		name.Problem = "up to 63 of a-z, 0-9, '.' and '-', a letter or digit at both ends"
	}
	return !p.form.FirstProblem()
}

func (p *subjectPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case defaultsMsg:
		if msg.id == p.defaults.ID {
			p.defaults.Done()
			p.found = msg.opts
			p.propose()
		}
		return nil
	case store.ContextsMsg:
		return p.ask(now)
	}
	if p.form.Update(msg, p.m.Keys) {
		p.propose()
		if x := p.form.Focused(); x != nil {
			x.Problem = ""
		}
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Enter):
		if p.check() {
			return p.m.review(now)
		}
	}
	return nil
}

func (p *subjectPage) typing() bool             { return p.form.Typing() }
func (p *subjectPage) animating() bool          { return false }
func (p *subjectPage) actions() []screen.Action { return formActions(&p.form, p.m.Keys, "review") }

func (p *subjectPage) view(f screen.Frame) string {
	lines := heading(f.Theme, "Who is it for?", f.Height)
	return strings.Join(append(lines, p.form.View(f.Theme, f.Width, f.Height-len(lines))), "\n")
}
