package enroll

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/describe"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// What the resume page's items stand for, besides the index of a record.
const (
	itemNew   = -1
	itemDraft = -2
)

// resumePage offers to go on with what was begun; where nothing was it steps aside.
type resumePage struct {
	m    *Model
	list picker
}

func newResume(m *Model) *resumePage { return &resumePage{m: m} }

func (p *resumePage) enter(now time.Time) tea.Cmd { return p.fill(now) }
func (p *resumePage) leave()                      {}
func (p *resumePage) typing() bool                { return p.list.filter.Typing() }
func (p *resumePage) animating() bool             { return !p.m.Store.Unfinished.Loaded }

// fill lists what was begun, or goes on to the token if nothing was.
func (p *resumePage) fill(now time.Time) tea.Cmd {
	u := p.m.Store.Unfinished
	if !u.Loaded {
		return nil
	}
	if len(u.Value) == 0 && p.m.Draft.Empty() && u.Err == nil {
		return p.m.instead(stageToken, now)
	}
	var items []item
	if d := p.m.Draft; !d.Empty() {
		items = append(items, item{id: "draft", index: itemDraft, name: "Go on with what you chose",
			about: describe.Token(d.token.Info), right: "nothing is done yet", level: describe.Quiet})
	}
	for i, j := range u.Value {
		items = append(items, item{
			id: j.Options.Name, index: i, name: "Resume " + text.Clean(j.Options.Name), level: describe.Quiet,
			about:  text.Clean(j.Options.User + " on " + j.Options.Context),
			right:  widget.Span(now.Sub(j.Updated)) + " ago",
			detail: []string{progressOf(j)},
		})
	}
	items = append(items, item{id: "new", index: itemNew, name: "Start a new enrolment"})
	p.list.set(items, p.m.opts.Name)
	return nil
}

// progressOf says how far an enrolment is.
func progressOf(j flow.Journal) string {
	steps := j.Options.Steps()
	next := steps[min(len(j.Done), len(steps)-1)]
	var done []string
	for _, s := range j.Done {
		done = append(done, text.Clean(s.Title()))
	}
	if len(done) == 0 {
		return "Nothing is done yet. Next: " + next.Title() + "."
	}
	return "Done: " + strings.Join(done, ", ") + ". Next: " + next.Title() + "."
}

func (p *resumePage) update(msg tea.Msg, now time.Time) tea.Cmd {
	if _, ok := msg.(store.UnfinishedMsg); ok {
		return p.fill(now)
	}
	if p.list.update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Enter):
		it, ok := p.list.selected()
		switch {
		case !ok:
		case it.index == itemNew:
			return p.m.to(stageToken, now)
		case it.index == itemDraft:
			return p.m.takeDraft(now)
		default:
			return p.m.resume(p.m.Store.Unfinished.Value[it.index].Options, now)
		}
	}
	return nil
}

func (p *resumePage) actions() []screen.Action {
	if len(p.list.items) == 0 {
		return []screen.Action{{Key: p.m.Keys.Back}}
	}
	return p.list.actions(p.m.Keys, "go on", "back")
}

func (p *resumePage) view(f screen.Frame) string {
	t, u := f.Theme, p.m.Store.Unfinished
	if len(p.list.items) == 0 {
		since, _ := u.Loading()
		return widget.Working(t, "Looking for enrolments that were begun", since, f.Now)
	}
	lines := heading(t, "Go on with an enrolment, or start a new one?", f.Height)
	if u.Err != nil {
		lines = append(append(lines, widget.Failure(t, u.Err, f.Width)...), "")
	}
	return strings.Join(append(lines, p.list.view(f.With(f.Width, f.Height-len(lines)))), "\n")
}
