package enroll

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// Services are what the wizard works with; the root passes them.
type Services struct {
	screen.Tools
	Enroller enroll.Enroller
	Joins    enroll.Joins
	Store    *store.Store
	Prompter hsm.Prompter
	// Draft keeps what was chosen in a wizard that was left, nil to keep nothing.
	Draft *Draft
}

// Draft is a wizard that was left before anything was done.
type Draft struct {
	Options enrolling.Options
	token   *hsm.View
	at      stage
	trail   []stage
}

// Empty tells whether there is nothing to go on with.
func (d *Draft) Empty() bool { return d == nil || d.at == stageResume || d.token == nil }

// stage is one page of the wizard.
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

// page is what is shown at one stage. update and the others are only called
// while it is the current one, but for messages that are not keys.
type page interface {
	enter(now time.Time) tea.Cmd
	leave()
	update(msg tea.Msg, now time.Time) tea.Cmd
	view(f screen.Frame) string
	actions() []screen.Action
	typing() bool
	animating() bool
}

// wizard is what the pages share: what was chosen so far, and the way through them.
type wizard struct {
	Services
	opts   enrolling.Options
	token  *hsm.View
	plan   plan
	result enrolling.Result
	pages  []page
	at     stage
	trail  []stage // the stages that esc goes back through

	looking task.Handle // the check for default secrets of the token
	refused error       // the error that the check found
}

// plan is the review, once it is ready.
type plan struct {
	enroll.Review
	ready bool
}

// refusedMsg says why the token cannot be enrolled yet, if it cannot.
type refusedMsg struct {
	id  task.ID
	err error
}

// lookForDefaults finds out whether the token's secrets stop the enrollment, so that the
// wizard can say so before it asks anything.
func (m *wizard) lookForDefaults(now time.Time) tea.Cmd {
	m.looking.Cancel()
	m.refused = nil
	if m.token == nil || m.opts.AcceptDefaults {
		return nil
	}
	u := m.token.Info.URI()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		return refusedMsg{id: id, err: m.Joins.RefuseDefaults(ctx, u, true)}
	})
	m.looking = h
	return cmd
}

func (m *wizard) page() page { return m.pages[m.at] }

// to goes on to s; esc comes back here.
func (m *wizard) to(s stage, now time.Time) tea.Cmd {
	m.page().leave()
	m.trail = append(m.trail, m.at)
	m.at = s
	return m.page().enter(now)
}

// instead goes to s; esc goes back to where it would have gone from here.
func (m *wizard) instead(s stage, now time.Time) tea.Cmd {
	m.page().leave()
	m.at = s
	return m.page().enter(now)
}

// back goes back one page, or leaves the wizard.
func (m *wizard) back(now time.Time) tea.Cmd {
	if len(m.trail) == 0 {
		return screen.Send(screen.BackMsg{})
	}
	m.page().leave()
	m.at = m.trail[len(m.trail)-1]
	m.trail = m.trail[:len(m.trail)-1]
	return m.page().enter(now)
}

// chooseToken takes v; what was chosen on another token is forgotten.
func (m *wizard) chooseToken(v hsm.View) {
	if m.token != nil && m.token.Info.URI().String() != v.Info.URI().String() {
		m.opts.Key, m.opts.Generate = hsm.URI{}, hsm.GenerateOptions{}
	}
	if k := m.opts.Key; k.Scheme != "" && !k.TokenOnly().MatchToken(v.Info) {
		m.opts.Key = hsm.URI{}
	}
	m.token = &v
	m.opts.Token = v.Info.URI()
}

// chooseSlot takes the key in s, or s as the place for a new one.
func (m *wizard) chooseSlot(s hsm.Slot) {
	m.opts.Generate.Overwrite = false
	if s.Key != nil {
		m.opts.Key = s.URI
		return
	}
	m.opts.Key = hsm.URI{}
	m.opts.Generate.Slot = s.ID
}

// refreshToken takes what is on the chosen token now.
func (m *wizard) refreshToken() {
	if m.token == nil {
		return
	}
	for _, v := range m.Store.Tokens.Value.Views {
		if m.token.Info.URI().String() == v.Info.URI().String() {
			m.token = &v
		}
	}
}

// resume goes on with an enrollment that was begun: straight to its review.
func (m *wizard) resume(o enrolling.Options, now time.Time) tea.Cmd {
	m.opts = o
	m.token = nil
	for _, v := range m.Store.Tokens.Value.Views {
		if o.Token.Scheme != "" && o.Token.TokenOnly().MatchToken(v.Info) {
			m.token = &v
		}
	}
	return m.to(stageReview, now)
}

// takeDraft goes on where a wizard was left.
func (m *wizard) takeDraft(now time.Time) tea.Cmd {
	d := *m.Draft
	*m.Draft = Draft{}
	m.page().leave()
	m.opts, m.token, m.at = d.Options, d.token, d.at
	m.trail = append([]stage{stageResume}, slices.DeleteFunc(d.trail, func(s stage) bool { return s == stageResume })...)
	return m.page().enter(now)
}
