// Package enroll is the wizard that takes a key on a token from nothing to a
// working kubeconfig context: token, key, cluster, subject, review, the steps
// themselves with progress, and the result with what to do next.
package enroll

import (
	"context"
	"slices"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// Backend is what the wizard needs of the use cases.
type Backend interface {
	Complete(ctx context.Context, o enrolling.Options) (enrolling.Options, error)
	Review(ctx context.Context, o enrolling.Options) (enroll.Review, error)
	Enroll(ctx context.Context, o enrolling.Options, p hsm.Prompter, report func(enrolling.Event)) (enrolling.Result, error)
	TakeCertificate(ctx context.Context, name string, pem []byte) error
	RefuseDefaults(ctx context.Context, token hsm.URI, puk bool) error
	NewJoinPUK(ctx context.Context, o enrolling.Options, showable func() error, p hsm.Prompter) (*enroll.JoinPUK, error)
}

// Services are what the wizard works with; the root passes them.
type Services struct {
	Backend  Backend
	Store    *store.Store
	Runner   *task.Runner
	Keys     keys.Map
	Prompter hsm.Prompter
	// Draft keeps what was chosen in a wizard that was left, nil to keep nothing.
	Draft *Draft
}

// Start says where the wizard starts.
type Start struct {
	// Options pre-fill it.
	Options enrolling.Options
	// Token, if not nil, is chosen already, and Slot on it.
	Token *hsm.View
	Slot  *hsm.Slot
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

// Model is the wizard.
type Model struct {
	Services
	opts  enrolling.Options
	token *hsm.View
	pages []page
	at    stage
	trail []stage // where esc goes back to

	looking task.Handle // the check for default secrets of the token
	refused error       // the error that the check found
}

// refusedMsg says why the token cannot be enrolled yet, if it cannot.
type refusedMsg struct {
	id  task.ID
	err error
}

// lookForDefaults finds out whether the token's secrets stop the enrollment, so that
// it is said before anything is asked.
func (m *Model) lookForDefaults(now time.Time) tea.Cmd {
	m.looking.Cancel()
	m.refused = nil
	if m.token == nil || m.opts.AcceptFactory {
		return nil
	}
	u := m.token.Info.URI()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		return refusedMsg{id: id, err: m.Backend.RefuseDefaults(ctx, u, true)}
	})
	m.looking = h
	return cmd
}

var _ screen.Screen = (*Model)(nil)

// New returns the wizard.
func New(s Services, start Start) *Model {
	m := &Model{Services: s, opts: start.Options}
	m.pages = []page{
		newResume(m), newToken(m), newKey(m), newPolicy(m), newCluster(m),
		newSubject(m), newReview(m), newRun(m), newResult(m),
	}
	if start.Token != nil {
		m.chooseToken(*start.Token)
		m.at = stageKey
		if start.Slot != nil {
			m.chooseSlot(*start.Slot)
			m.at = stageCluster
			if start.Slot.Key == nil {
				m.at = stagePolicy
			}
		}
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Enroll }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Enroll" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd {
	return tea.Batch(m.Store.LoadContexts(now), m.Store.LoadUnfinished(now), m.lookForDefaults(now), m.page().enter(now))
}

// Close implements [screen.Screen].
func (m *Model) Close() {
	m.looking.Cancel()
	m.page().leave()
	if m.Draft != nil && m.at < stageRun && m.at > stageResume {
		*m.Draft = Draft{Options: m.opts, token: m.token, at: m.at, trail: m.trail}
	}
}

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.page().typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.page().animating() }

// Watching implements [screen.Screen]: tokens are looked for while one is
// chosen, and left alone while one is used.
func (m *Model) Watching() bool { return m.at == stageToken || m.at == stageKey }

// Leave implements [screen.Screen].
func (m *Model) Leave() string {
	if m.pages[stageRun].(*runPage).active() {
		return "The enrollment stops here. What is done is kept: it can be resumed at any time."
	}
	return ""
}

func (m *Model) page() page          { return m.pages[m.at] }
func (m *Model) review() *reviewPage { return m.pages[stageReview].(*reviewPage) }

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	k, isKey := msg.(tea.KeyPressMsg)
	switch msg := msg.(type) {
	case store.TokensMsg:
		m.refreshToken()
	case pukMsg:
		return tea.Batch(m.lookForDefaults(now), m.page().update(msg, now))
	case refusedMsg:
		if msg.id == m.looking.ID {
			m.looking.Done()
			m.refused = msg.err
		}
		return nil
	}
	if isKey && key.Matches(k, m.Keys.Command) && !m.Typing() && m.at != stageResult {
		return screen.Send(screen.CommandMsg{Title: present.SameTitle, Lines: m.commands()})
	}
	return m.page().update(msg, now)
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	actions := m.page().actions()
	if m.at != stageResult && !m.Typing() {
		actions = append(actions, screen.Action{Key: m.Keys.Command, Quiet: true})
	}
	return actions
}

// to goes on to s; esc comes back here.
func (m *Model) to(s stage, now time.Time) tea.Cmd {
	m.page().leave()
	m.trail = append(m.trail, m.at)
	m.at = s
	return m.page().enter(now)
}

// instead goes to s; esc goes back to where it would have gone from here.
func (m *Model) instead(s stage, now time.Time) tea.Cmd {
	m.page().leave()
	m.at = s
	return m.page().enter(now)
}

// back goes back one page, or leaves the wizard.
func (m *Model) back(now time.Time) tea.Cmd {
	if len(m.trail) == 0 {
		return screen.Send(screen.BackMsg{})
	}
	m.page().leave()
	m.at = m.trail[len(m.trail)-1]
	m.trail = m.trail[:len(m.trail)-1]
	return m.page().enter(now)
}

// chooseToken takes v; what was chosen on another token is forgotten.
func (m *Model) chooseToken(v hsm.View) {
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
func (m *Model) chooseSlot(s hsm.Slot) {
	m.opts.Generate.Overwrite = false
	if s.Key != nil {
		m.opts.Key = s.URI
		return
	}
	m.opts.Key = hsm.URI{}
	m.opts.Generate.Slot = s.ID
}

// refreshToken takes what is on the chosen token now.
func (m *Model) refreshToken() {
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
func (m *Model) resume(o enrolling.Options, now time.Time) tea.Cmd {
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
func (m *Model) takeDraft(now time.Time) tea.Cmd {
	d := *m.Draft
	*m.Draft = Draft{}
	m.page().leave()
	m.opts, m.token, m.at = d.Options, d.token, d.at
	m.trail = append([]stage{stageResume}, slices.DeleteFunc(d.trail, func(s stage) bool { return s == stageResume })...)
	return m.page().enter(now)
}
