// Package enroll is the wizard that takes a key on a token from nothing to a
// working kubeconfig context. It opens on the review, which proposes all there is
// to choose and leads to the pages where it is chosen otherwise: token, key, cluster,
// subject. Then come the steps themselves with progress, and the result with what to
// do next.
package enroll

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
)

// Start says where the wizard starts.
type Start struct {
	// Options pre-fill it.
	Options enrolling.Options
	// Token, if not nil, is chosen already, and Slot on it.
	Token *hsm.View
	Slot  *hsm.Slot
}

// Model is the wizard.
type Model struct{ wizard }

var _ screen.Screen = (*Model)(nil)

// New returns the wizard.
func New(s Services, start Start) *Model {
	m := &Model{wizard{Services: s, opts: start.Options}}
	w := &m.wizard
	m.pages = []page{
		newResume(w), newToken(w), newKey(w), newPolicy(w), newCluster(w),
		newSubject(w), newReview(w), newRun(w), newResult(w),
	}
	m.opts.Guided = true
	if start.Token != nil {
		m.chooseToken(*start.Token)
		if start.Slot != nil {
			m.chooseSlot(*start.Slot)
		}
		m.at = stageReview
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Enroll }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Enroll" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd {
	return tea.Batch(m.Store.LoadContexts(now), m.Store.LoadUnfinished(now), m.page().enter(now))
}

// Close implements [screen.Screen].
func (m *Model) Close() {
	m.page().leave()
	if m.Draft != nil && m.at < stageRun && m.at > stageResume && m.changed {
		*m.Draft = Draft{Options: m.opts, token: m.token, changed: true}
	}
}

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.page().typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.page().animating() }

// Watching implements [screen.Screen]: tokens are looked for while one is
// chosen or awaited, and left alone while one is used.
func (m *Model) Watching() time.Duration {
	if m.at == stageToken || m.at == stageKey || m.at == stageReview {
		return store.TokensEvery
	}
	return 0
}

// Leave implements [screen.Screen].
func (m *Model) Leave() string {
	if m.pages[stageRun].(*runPage).active() {
		return "The enrollment stops here. Finished steps are kept: it can be resumed at any time."
	}
	return m.pages[stageResult].(*resultPage).unkept()
}

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	k, isKey := msg.(tea.KeyPressMsg)
	if _, ok := msg.(store.TokensMsg); ok {
		m.refreshToken()
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
