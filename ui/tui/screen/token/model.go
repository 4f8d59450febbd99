// Package token is the screen of one token: its slots, what they hold and what
// the token says of them, and everything that administers it.
package token

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/slotview"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Services are what the screen works with; the root passes them.
type Services struct {
	screen.Tools
	Tokens    token.Tokens
	TokenKeys token.Keys
	Requests  request.Own
	Store     *store.Store
	Enroll    func(*hsm.View, *hsm.Slot) screen.Screen
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	info    hsm.TokenInfo
	details token.Details
	loaded  bool
	err     error // error of the last reading
	gone    bool
	job     task.Handle

	nav    widget.Nav
	chosen string
	height int

	measure slotview.Measure
}

var _ screen.Screen = (*Model)(nil)

type detailsMsg struct {
	id      task.ID
	details token.Details
	err     error
}

// New returns the screen of a token, with the cursor on slot if it is not nil.
func New(s Services, v hsm.View, slot *hsm.Slot) *Model {
	m := &Model{Services: s, info: v.Info}
	m.details = token.Details{Info: v.Info, Slots: v.Slots}
	if slot != nil {
		m.chosen = slot.ID
	}
	m.follow()
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Token }

// Title implements [screen.Screen].
func (m *Model) Title() string { return present.Token(m.info) }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd { return m.read(now) }

// Close implements [screen.Screen].
func (m *Model) Close() { m.job.Cancel() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.job.Active() && !m.loaded }

// Watching implements [screen.Screen]: a token that is unplugged is missed.
func (m *Model) Watching() time.Duration { return store.TokensEvery }

func (m *Model) read(now time.Time) tea.Cmd {
	m.job.Cancel()
	u := m.uri()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		d, err := m.Tokens.Details(ctx, u)
		return detailsMsg{id: id, details: d, err: err}
	})
	m.job = h
	return cmd
}

func (m *Model) uri() hsm.URI { return m.info.URI() }

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case detailsMsg:
		if msg.id == m.job.ID {
			m.job.Done()
			if m.err = msg.err; msg.err == nil {
				m.details, m.info, m.loaded = msg.details, msg.details.Info, true
				m.follow()
			}
		}
	case store.TokensMsg:
		return m.tokens(now)
	case screen.ChangedMsg:
		return tea.Batch(m.read(now), m.Store.LoadTokens(now))
	case widget.RowMsg:
		m.nav.Click(msg, len(m.details.Slots))
		remember(m)
	case tea.KeyPressMsg:
		return m.key(msg, now)
	}
	return nil
}

// tokens notices that the token was removed, and reads it again when it is back or has changed.
func (m *Model) tokens(now time.Time) tea.Cmd {
	for _, v := range m.Store.Tokens.Value.Views {
		if v.Info.URI().TokenOnly().String() != m.uri().TokenOnly().String() {
			continue
		}
		was := m.gone
		m.gone = false
		if was || v.Info.PIN != m.info.PIN {
			m.info = v.Info
			return m.read(now)
		}
		return nil
	}
	m.gone = m.Store.Tokens.Loaded && m.Store.Tokens.Err == nil
	return nil
}

func (m *Model) follow() {
	m.measure = slotview.Of(m.details.Slots)
	for i, s := range m.details.Slots {
		if s.ID == m.chosen {
			m.nav.Index = i
		}
	}
	m.nav.Clamp(len(m.details.Slots))
}

func (m *Model) slot() (hsm.Slot, bool) {
	if m.nav.Index >= len(m.details.Slots) {
		return hsm.Slot{}, false
	}
	return m.details.Slots[m.nav.Index], true
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	if m.nav.Update(k, m.Keys, len(m.details.Slots), m.height) {
		remember(m)
		return nil
	}
	cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.read(now) })
	return cmd
}

func remember(m *Model) {
	if s, ok := m.slot(); ok {
		m.chosen = s.ID
	}
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	return append(m.Acts().Actions(), screen.Action{Key: m.Keys.Back}, screen.Action{Key: m.Keys.Refresh, Quiet: true})
}

func by(words string, u hsm.URI, options ...verb.Option) string {
	flag := "token"
	if u.Slot != "" || u.Object != "" || len(u.ID) > 0 {
		flag = "key"
	}
	return verb.Line(words, append(slices.Clip(options), verb.Flag(flag, u.String()))...)
}
