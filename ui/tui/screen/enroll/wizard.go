package enroll

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
)

// Services are what the wizard works with; the root passes them.
type Services struct {
	screen.Tools
	Enroller enroll.Enroller
	Joins    enroll.Joins
	Store    *store.Store
	Prompter hsm.Prompter
	// Renew renews the certificate of the enrollment called name.
	Renew func(name string) screen.Operation
	// Draft keeps what was chosen in a wizard that was left, nil to keep nothing.
	Draft *Draft
}

// Draft is a wizard that was left before anything was done.
type Draft struct {
	Options enrolling.Options
	token   *hsm.View
	changed bool
}

// Empty reports whether there is nothing to go on with.
func (d *Draft) Empty() bool { return d == nil || !d.changed }

type stage int

const (
	stageResume stage = iota
	stageToken
	stageKey
	stagePolicy
	stageCluster
	stageSubject
	stageReview
	stageRun
	stageResult
)

// page is one stage of the wizard. Its methods are called only while it is in front; update also
// gets messages other than keys behind others.
type page interface {
	enter(now time.Time) tea.Cmd
	leave()
	update(msg tea.Msg, now time.Time) tea.Cmd
	view(f screen.Frame) string
	actions() []screen.Action
	typing() bool
	animating() bool
}

type wizard struct {
	Services
	opts   enrolling.Options
	token  *hsm.View
	plan   plan
	result enrolling.Result
	pages  []page
	at     stage
	trail  []stage // the stages that esc goes back through
	// changed: the person has opened a page to change a proposal.
	changed bool
	// several: the token has several certificates that can sign in, and the person chooses one.
	several bool
}

type plan struct {
	enroll.Review
	ready bool
}

func (m *wizard) page() page { return m.pages[m.at] }

func (m *wizard) to(s stage, now time.Time) tea.Cmd {
	m.page().leave()
	m.trail = append(m.trail, m.at)
	m.at = s
	return m.page().enter(now)
}

// change opens a page on which a proposal of the review can be changed.
func (m *wizard) change(s stage, now time.Time) tea.Cmd {
	m.changed = true
	return m.to(s, now)
}

func (m *wizard) review(now time.Time) tea.Cmd {
	m.page().leave()
	m.trail = slices.DeleteFunc(m.trail, func(s stage) bool { return s != stageResume })
	m.at = stageReview
	return m.page().enter(now)
}

// instead replaces the current page with s.
func (m *wizard) instead(s stage, now time.Time) tea.Cmd {
	m.page().leave()
	m.at = s
	return m.page().enter(now)
}

func (m *wizard) back(now time.Time) tea.Cmd {
	if len(m.trail) == 0 {
		return screen.Send(screen.BackMsg{})
	}
	m.page().leave()
	m.at = m.trail[len(m.trail)-1]
	m.trail = m.trail[:len(m.trail)-1]
	return m.page().enter(now)
}

// chooseToken takes v, and forgets choices that belong to another token.
func (m *wizard) chooseToken(v hsm.View) {
	if m.token != nil && m.token.Info.URI().String() != v.Info.URI().String() {
		m.opts.Key, m.opts.Generate, m.opts.Adopt = hsm.URI{}, hsm.GenerateOptions{}, false
	}
	if k := m.opts.Key; k.Scheme != "" && !k.TokenOnly().MatchToken(v.Info) {
		m.opts.Key = hsm.URI{}
	}
	m.token = &v
	m.opts.Token = v.Info.URI()
}

// chooseSlot takes the key in s, or s as the place of a new key.
func (m *wizard) chooseSlot(s hsm.Slot) {
	m.opts.Generate.Overwrite, m.opts.Adopt = false, false
	if s.Key != nil {
		m.opts.Key = s.URI
		return
	}
	m.opts.Key = hsm.URI{}
	m.opts.Generate.Slot = s.ID
}

// pin keeps the token that the review found by itself.
func (m *wizard) pin() {
	if m.token != nil && m.opts.Token.Scheme == "" {
		m.opts.Token = m.token.Info.URI()
	}
	if m.plan.ready {
		m.opts.Generate.Touch = m.plan.Options.Generate.Touch
	}
}

func here(s *store.Store) []string {
	var all []string
	for _, v := range s.Tokens.Value.Views {
		all = append(all, v.Info.URI().String())
	}
	slices.Sort(all)
	return all
}

func (m *wizard) refreshToken() {
	u := m.opts.Token
	if u.Scheme == "" {
		u = m.plan.Options.Token
	}
	if u.Scheme == "" {
		return
	}
	for _, v := range m.Store.Tokens.Value.Views {
		if u.TokenOnly().MatchToken(v.Info) {
			m.token = &v
		}
	}
}

// resume continues an unfinished enrollment at its review. A renewal has no review.
func (m *wizard) resume(o enrolling.Options, now time.Time) tea.Cmd {
	if o.Renewal != nil {
		return screen.Operate(m.Renew(o.Name))
	}
	m.opts = o
	m.token = nil
	m.refreshToken()
	return m.to(stageReview, now)
}

func (m *wizard) takeDraft(now time.Time) tea.Cmd {
	d := *m.Draft
	*m.Draft = Draft{}
	m.opts, m.token, m.changed = d.Options, d.token, true
	return m.to(stageReview, now)
}
