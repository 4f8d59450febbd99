package enroll

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// clusterPage chooses the kubeconfig context whose cluster is joined.
type clusterPage struct {
	m    *wizard
	list picker
}

func newCluster(m *wizard) *clusterPage { return &clusterPage{m: m} }

func (p *clusterPage) enter(now time.Time) tea.Cmd {
	p.fill()
	if p.m.Store.Contexts.Err == nil {
		return nil
	}
	return p.m.Store.LoadContexts(now)
}
func (p *clusterPage) leave()          {}
func (p *clusterPage) typing() bool    { return p.list.filter.Typing() }
func (p *clusterPage) animating() bool { return !p.m.Store.Contexts.Loaded }

func (p *clusterPage) fill() {
	var items []item
	prefer := ""
	if len(p.m.Store.Contexts.Value) == 0 && p.m.Store.Contexts.Loaded {
		prefer = "ticket"
	}
	for i, c := range p.m.Store.Contexts.Value {
		kind, level := present.SignsInBy(c)
		it := item{id: c.Name, index: i, name: text.Clean(c.Name), level: level,
			about: present.Server(c), right: kind,
			detail: []string{text.Clean("cluster " + c.Cluster + ", user " + c.User + ", in " + c.File)}}
		if c.Current {
			it.right = strings.TrimSpace(it.right + ", current")
		}
		if c.Name == p.m.opts.Context || c.Current && p.m.opts.Context == "" {
			prefer = c.Name
		}
		items = append(items, it)
	}
	items = append(items, joins()...)
	p.list.set(items, prefer)
}

func (p *clusterPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case joinMsg:
		p.m.opts = msg.opts
		if msg.next == stageReview {
			return p.m.review(now)
		}
		return p.m.to(msg.next, now)
	case store.ContextsMsg:
		p.fill()
		return nil
	}
	if p.list.update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Refresh):
		return p.m.Store.LoadContexts(now)
	case key.Matches(k, p.m.Keys.Enter):
		if it, ok := p.list.selected(); ok && it.reason == "" {
			return p.choose(it, now)
		}
	}
	return nil
}

func (p *clusterPage) choose(it item, now time.Time) tea.Cmd {
	switch it.index {
	case itemTicket:
		return p.askTicket()
	case itemToken:
		return p.askToken()
	case itemFile:
		return p.askFile()
	}
	p.m.opts.Join = nil
	p.m.opts.Context = p.m.Store.Contexts.Value[it.index].Name
	return p.m.review(now)
}

func (p *clusterPage) actions() []screen.Action {
	a := p.list.actions(p.m.Keys, "choose", "back")
	if p.typing() {
		return a
	}
	return append(a, screen.Action{Key: p.m.Keys.Refresh})
}

func (p *clusterPage) view(f screen.Frame) string {
	t, s := f.Theme, p.m.Store
	lines := heading(t, "Which cluster is the key for?", f.Height)
	since, _ := s.Contexts.Loading()
	switch {
	case s.Contexts.Err != nil:
		lines = append(append(lines, widget.Failure(t, s.Contexts.Err, f.Width)...), "", t.Muted.Render("r reads it again."))
	case !s.Contexts.Loaded:
		lines = append(lines, widget.Working(t, "Reading the kubeconfig", since, f.Now))
	default:
		if len(s.Contexts.Value) == 0 {
			lines = append(lines, widget.Paragraph(t.Text,
				"The kubeconfig has no contexts. Add a kubeconfig for the cluster and press r, or join.", f.Width)...)
			lines = append(lines, "")
		}
		lines = append(lines, p.list.view(f.With(f.Width, f.Height-len(lines))))
	}
	return strings.Join(lines, "\n")
}
