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
)

// subjectPage says who the certificate is for, how long it lasts and what the
// context is called.
type subjectPage struct {
	m         *wizard
	form      widget.Form
	lifetimes []time.Duration
	defaults  task.Handle
	found     enrolling.Options // options that are filled in where nothing is typed
}

// defaultsMsg brings what is filled in where nothing was said.
type defaultsMsg struct {
	id   task.ID
	opts enrolling.Options
}

func newSubject(m *wizard) *subjectPage { return &subjectPage{m: m} }

func (p *subjectPage) enter(now time.Time) tea.Cmd {
	o := p.m.opts
	p.lifetimes = []time.Duration{0, 8 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 90 * 24 * time.Hour,
		365 * 24 * time.Hour}
	if !slices.Contains(p.lifetimes, o.Expiration) {
		p.lifetimes = append(p.lifetimes, o.Expiration)
	}
	life := &widget.Field{ID: "lifetime", Label: "Lifetime",
		Note: "The signer may give less. Short lives are safer: certificates cannot be revoked."}
	for i, d := range p.lifetimes {
		if d == o.Expiration {
			life.Index = i
		}
		life.Options = append(life.Options, widget.Option{Label: present.Lifetime(d)})
	}
	current := &widget.Field{ID: "current", Label: "Switch to it", Options: []widget.Option{
		{Label: "yes", Clause: "kubectl uses the new context from then on"}, {Label: "no",
			Clause: "the current context stays"}}}
	if o.KeepCurrent {
		current.Index = 1
	}
	p.form = widget.Form{Focus: p.form.Focus, Fields: []*widget.Field{
		{ID: "user", Label: "User", Input: widget.NewInput(o.User, "who the certificate is for"),
			Note: "The name that the cluster knows you by (CN); rights are given to it."},
		{ID: "groups", Label: "Groups", Input: widget.NewInput(typed(o.Groups), "none"),
			Note: `Separated by commas (O); \, is a comma in a name.`},
		life,
		{ID: "name", Label: "Context", Input: widget.NewInput(o.Name, "named after the cluster"),
			Note: "The name of the new kubeconfig context."},
		current,
		{ID: "reason", Label: "Reason", Input: widget.NewInput(o.Reason, "none"),
			Note: "Shown to whoever approves the request."},
	}}
	return p.ask(now)
}

// ask finds the defaults for what was left open, where the cluster is there.
func (p *subjectPage) ask(now time.Time) tea.Cmd {
	if p.m.Store.Building() {
		return nil
	}
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

// propose shows what is filled in where nothing is typed. The groups that were found are those
// of the user that was found.
func (p *subjectPage) propose() {
	groups := ""
	if p.form.Field("user").Input.Value() == "" {
		groups = typed(p.found.Groups)
	}
	for id, value := range map[string]string{"user": cmp.Or(p.found.User, "who the certificate is for"),
		"groups": cmp.Or(groups, "none"), "name": cmp.Or(p.found.Name, "named after the cluster")} {
		p.form.Field(id).Input.Placeholder = text.Clean(value)
	}
}

// leave takes what the form says.
func (p *subjectPage) leave() {
	p.defaults.Cancel()
	o := &p.m.opts
	value := func(id string) string { return strings.TrimSpace(p.form.Field(id).Input.Value()) }
	o.User, o.Name, o.Reason = value("user"), value("name"), value("reason")
	o.Groups = groups(value("groups"))
	o.Expiration = p.lifetimes[p.form.Field("lifetime").Index]
	o.KeepCurrent = p.form.Field("current").Index == 1
}

// groups reads names that are separated by commas; a comma after a backslash is part of a name.
func groups(s string) []string {
	var out []string
	name, escaped := strings.Builder{}, false
	for _, r := range s + "," {
		switch {
		case escaped:
			if r != ',' && r != '\\' {
				name.WriteByte('\\')
			}
			name.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == ',':
			if g := strings.TrimSpace(name.String()); g != "" && !slices.Contains(out, g) {
				out = append(out, g)
			}
			name.Reset()
		default:
			name.WriteRune(r)
		}
	}
	return out
}

// typed is what [groups] reads as these names.
func typed(names []string) string {
	escaped := make([]string, len(names))
	for i, g := range names {
		escaped[i] = strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(g)
	}
	return strings.Join(escaped, ", ")
}

// check says beside each field what is wrong with it.
func (p *subjectPage) check() bool {
	for _, f := range p.form.Fields {
		f.Problem = ""
	}
	user, name := p.form.Field("user"), p.form.Field("name")
	if strings.TrimSpace(user.Input.Value()) == "" && p.found.User == "" {
		user.Problem = "a user name is needed"
	}
	if slices.Contains(groups(p.form.Field("groups").Input.Value()), "system:masters") {
		p.form.Field("groups").Problem = "API servers refuse requests for system:masters"
	}
	if v := strings.TrimSpace(name.Input.Value()); v != "" && enrollment.ValidName(v) != nil {
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
	case store.ContextsMsg, store.ClusterReadyMsg:
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
