package enroll

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// clusterPage chooses the kubeconfig context whose cluster to join. While that cluster is still
// being built, it shows the progress and continues by itself when the cluster is ready.
type clusterPage struct {
	m      *wizard
	list   picker
	waited bool // the cluster was being built while this page was shown
}

func newCluster(m *wizard) *clusterPage { return &clusterPage{m: m} }

func (p *clusterPage) enter(now time.Time) tea.Cmd {
	p.waited = p.m.Store.Building()
	p.fill()
	if p.waited || p.m.Store.Contexts.Err == nil {
		return nil
	}
	return p.m.Store.LoadContexts(now)
}
func (p *clusterPage) leave()       {}
func (p *clusterPage) typing() bool { return p.list.filter.Typing() }
func (p *clusterPage) animating() bool {
	return p.m.Store.Building() || !p.m.Store.Contexts.Loaded
}

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
		if it, ok := p.list.selected(); p.waited && p.m.Store.Cluster.Value.Ready() && ok && it.index >= 0 {
			p.waited = false
			return p.choose(it, now)
		}
		return nil
	}
	building := p.m.Store.Building()
	if !building && p.list.update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.m.Keys.Refresh) && !building:
		return p.m.Store.LoadContexts(now)
	case key.Matches(k, p.m.Keys.Enter) && building:
		return p.m.review(now)
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
	if p.m.Store.Building() {
		return []screen.Action{{Key: keys.As(p.m.Keys.Enter, "go on meanwhile")}, {Key: p.m.Keys.Back}}
	}
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
	if s.Building() {
		return strings.Join(append(lines, clusterProgress(s, f)...), "\n")
	}
	lines = append(lines, clusterFailure(s, f)...)
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

func clusterFailure(s *store.Store, f screen.Frame) []string {
	if !s.Cluster.Value.Failed() {
		return nil
	}
	err := hint.With(errors.New("the cluster could not be started: "+s.Cluster.Value.Message),
		"other clusters can still be joined")
	return append(widget.Failure(f.Theme, err, f.Width), "")
}

func clusterProgress(s *store.Store, f screen.Frame) []string {
	t, c := f.Theme, s.Cluster.Value
	lines := widget.Paragraph(t.Text,
		"The trial's control plane is being built. This takes a few minutes, the first time only.", f.Width)
	lines = append(lines, "")
	elapsed := ""
	if !c.Started.IsZero() {
		elapsed = present.Elapsed(f.Now.Sub(c.Started))
	}
	phase := cmp.Or(text.Clean(c.Phase), "starting")
	if c.Done > 0 && c.Total > 0 { // until the first is done nobody knows how long it takes
		done := min(c.Done, c.Total)
		w := min(f.Width-8, 48)
		pct := percent(done, c.Total)
		lines = append(lines, widget.Bar(t, w, float64(done)/float64(c.Total))+" "+t.Strong.Render(pct))
		phase += ", " + count(done, c.Total)
	}
	spin := widget.Spinner(t, c.Started, f.Now)
	status := spin + " " + t.Text.Render(phase)
	if elapsed != "" {
		status += t.Muted.Render(" " + t.Glyphs.Dot + " " + elapsed)
	}
	lines = append(lines, widget.Cut(status, f.Width))
	if c.Message != "" {
		lines = append(lines, "  "+t.Faint.Render(widget.Cut(text.Clean(c.Message), f.Width-2)))
	}
	if s.Cluster.Err != nil {
		lines = append(append(lines, ""), widget.Failure(t, s.Cluster.Err, f.Width)...)
	}
	return append(lines, "", t.Muted.Render(widget.Cut("The enrollment continues when the cluster is ready.", f.Width)))
}
