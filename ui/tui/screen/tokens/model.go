// Package tokens is the screen that shows every token and slot at a glance:
// what is in it, algorithm, policies, certificate, expiry and PIN state.
package tokens

import (
	"iter"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/slotview"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Model is the screen.
type Model struct {
	store *store.Store
	keys  keys.Map
	open  Openers

	filter widget.Filter
	nav    widget.Nav
	rows   []row
	chosen string // the key of the selected row: it stays selected when others come and go
	height int    // height of the list in the last frame

	measure slotview.Measure // column widths of the slots among the rows
	lines   []line
}

var _ screen.Screen = (*Model)(nil)

type row struct {
	token *hsm.View
	slot  *hsm.Slot // nil for the token itself
}

// line is a row, the note below it, or the gap above it.
type line struct {
	row int
	is  lineKind
}

type lineKind int

const (
	lineRow lineKind = iota
	lineNote
	lineGap // only where there is room
)

func (r row) key() string {
	if r.slot == nil {
		return r.token.Info.URI().String()
	}
	return r.token.Info.URI().String() + " " + r.slot.ID
}

func (r row) uri() hsm.URI {
	if r.slot == nil {
		return r.token.Info.URI()
	}
	return r.slot.URI
}

func (r row) fingerprint() (string, error) {
	if r.slot == nil || r.slot.Key == nil || r.slot.Key.Public == nil {
		return "", hsm.ErrNoKey
	}
	return hsm.Fingerprint(r.slot.Key.Public)
}

func (r row) words() string {
	i := r.token.Info
	s := strings.Join([]string{i.Label, i.Manufacturer, i.Model, i.Serial, i.Reader, i.Scheme}, " ")
	if r.slot != nil {
		s += " " + r.slot.ID + " " + r.slot.Label + " " + present.Certificate(r.slot.Certificate)
		if r.slot.Key != nil {
			s += " " + string(r.slot.Key.Algorithm)
		}
	}
	return s
}

// Openers make the screens that this one leads to.
type Openers struct {
	// Enroll is the wizard for a token and, if not nil, one of its slots; both nil
	// start it from scratch.
	Enroll func(*hsm.View, *hsm.Slot) screen.Screen
	// Token is the screen of one token, with the cursor on the slot if not nil.
	Token func(hsm.View, *hsm.Slot) screen.Screen
}

// New returns the screen.
func New(s *store.Store, k keys.Map, o Openers) *Model {
	return &Model{store: s, keys: k, open: o}
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Tokens }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Tokens" }

// Open implements [screen.Screen]; the root keeps the tokens fresh.
func (m *Model) Open(time.Time) tea.Cmd { return nil }

// Close implements [screen.Screen].
func (m *Model) Close() {}

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.filter.Typing() }

// Watching implements [screen.Screen].
func (m *Model) Watching() time.Duration { return store.TokensEvery }

// Leave implements [screen.Screen].
func (m *Model) Leave() string { return "" }

// Animating implements [screen.Screen]: only the first reading has a spinner.
func (m *Model) Animating() bool {
	_, loading := m.store.Tokens.Loading()
	return loading && !m.store.Tokens.Loaded
}

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case store.TokensMsg:
		m.rebuild()
	case screen.ChangedMsg:
		return m.store.LoadTokens(now)
	case widget.RowMsg:
		m.nav.Click(msg, len(m.rows))
		m.remember()
	case tea.KeyPressMsg, tea.PasteMsg:
		if m.filter.Update(msg) {
			m.rebuild()
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	if m.nav.Update(k, m.keys, len(m.rows), m.height) {
		m.remember()
		return nil
	}
	switch {
	case key.Matches(k, m.keys.Refresh):
		return m.store.LoadTokens(now)
	case key.Matches(k, m.keys.Filter):
		m.filter.Open()
		return nil
	case key.Matches(k, m.keys.Back):
		m.filter.Clear()
		m.rebuild()
		return nil
	}
	cmd, _ := m.Acts().Press(k)
	return cmd
}

func (m *Model) command(r row) screen.CommandMsg {
	flag := "--token"
	if r.slot != nil && r.slot.Key != nil {
		flag = "--key"
	}
	return screen.CommandMsg{Title: "Commands", Lines: []string{
		"kubehsm token list",
		"kubehsm token info --token " + shell.Quote(r.token.Info.URI().String()),
		"kubehsm enroll " + flag + " " + shell.Quote(r.uri().String()),
	}}
}

// Acts implements [screen.Actor].
func (m *Model) Acts() screen.Acts {
	r, ok := m.selected()
	none := screen.When(!ok, "no token is selected")
	enroll, unusable, noKey := m.keys.Enroll, none, none
	if ok {
		unusable = present.Unusable(r.token.Info)
		if r.slot != nil {
			if r.slot.Key != nil {
				enroll = keys.As(enroll, "enroll this key")
			}
			if r.slot.Problem != "" {
				unusable = text.Clean(r.slot.Problem)
			}
		}
		if _, err := r.fingerprint(); err != nil {
			noKey = "there is no key"
		}
	}
	return screen.Acts{
		screen.On(screen.Action{Key: keys.As(m.keys.Enter, "open"), Reason: none}, "token info; key show", func() tea.Cmd {
			return screen.Send(screen.OpenMsg{Screen: m.open.Token(*r.token, r.slot)})
		}),
		screen.On(screen.Action{Key: enroll, Reason: unusable}, "enroll", func() tea.Cmd {
			return screen.Send(screen.OpenMsg{Screen: m.open.Enroll(r.token, r.slot)})
		}),
		screen.On(screen.Action{Key: m.keys.Resume}, "enroll; join", func() tea.Cmd {
			return screen.Send(screen.OpenMsg{Screen: m.open.Enroll(nil, nil)})
		}),
		screen.On(screen.Action{Key: keys.As(m.keys.Copy, "copy URI"), Reason: none, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "URI", Text: r.uri().String()})
		}),
		screen.On(screen.Action{Key: m.keys.CopyPrint, Reason: noKey, Quiet: true}, "", func() tea.Cmd {
			fp, err := r.fingerprint()
			if err != nil {
				return screen.Send(screen.ToastMsg{Text: err.Error(), Warn: true})
			}
			return screen.Send(screen.CopyMsg{What: "fingerprint", Text: fp})
		}),
		screen.On(screen.Action{Key: m.keys.Command, Reason: none, Quiet: true}, "",
			func() tea.Cmd { return screen.Send(m.command(r)) }),
	}
}

// Finds implements [screen.Finder]: each token, and each slot that holds something, with
// what its own screen does.
func (m *Model) Finds(time.Time) iter.Seq[screen.Found] {
	return func(yield func(screen.Found) bool) {
		for i := range m.store.Tokens.Value.Views {
			v := &m.store.Tokens.Value.Views[i]
			name := present.Token(v.Info)
			if !yield(found(m, row{token: v}, name, true)) {
				return
			}
			for j := range v.Slots {
				s := &v.Slots[j]
				if s.Key == nil && s.Certificate == nil {
					continue
				}
				if !yield(found(m, row{token: v, slot: s}, "slot "+present.Slot(*s)+" on "+name, false)) {
					return
				}
			}
		}
	}
}

func found(m *Model, r row, name string, whole bool) screen.Found {
	acts := slices.DeleteFunc(actsOf(m.open.Token(*r.token, r.slot)), func(a screen.Act) bool {
		return a.Verb == "" || strings.HasPrefix(a.Verb, "token ") != whole
	})
	open := screen.On(screen.Action{Key: keys.As(m.keys.Enter, "open")}, "token info", func() tea.Cmd {
		return screen.Send(screen.OpenMsg{Screen: m.open.Token(*r.token, r.slot)})
	})
	return screen.Found{Name: name, Words: r.words() + " token", Acts: append(screen.Acts{open}, acts...),
		Select: func() { m.chosen = r.key(); m.rebuild() }}
}

// Below implements [screen.Opener].
func (m *Model) Below() screen.Acts { return actsOf(m.open.Token(hsm.View{}, nil)) }

func actsOf(s screen.Screen) screen.Acts {
	a, ok := s.(screen.Actor)
	if !ok {
		return nil
	}
	return a.Acts()
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.filter.Typing() {
		return screen.Filtering(m.keys)
	}
	actions := slices.Insert(m.Acts().Actions(), 4, screen.Action{Key: m.keys.Filter}, screen.Action{Key: m.keys.Refresh})
	if m.filter.Active() {
		actions = append(actions, screen.Action{Key: keys.As(m.keys.Back, "show all")})
	}
	return actions
}

// held reports whether a card is held by GnuPG's daemon.

func (m *Model) selected() (row, bool) {
	if m.nav.Index >= len(m.rows) {
		return row{}, false
	}
	return m.rows[m.nav.Index], true
}

func (m *Model) remember() {
	if r, ok := m.selected(); ok {
		m.chosen = r.key()
	}
}

func (m *Model) rebuild() {
	m.rows, m.lines = nil, nil
	var slots []hsm.Slot
	views := m.store.Tokens.Value.Views
	for i := range views {
		v := &views[i]
		head, mine := row{token: v}, []row(nil)
		for j := range v.Slots {
			if r := (row{token: v, slot: &v.Slots[j]}); m.filter.Match(r.words()) {
				mine = append(mine, r)
				slots = append(slots, v.Slots[j])
			}
		}
		if len(mine) > 0 || m.filter.Match(head.words()) {
			m.rows = append(append(m.rows, head), mine...)
		}
	}
	m.measure = slotview.Of(slots)
	for i, r := range m.rows {
		if r.key() == m.chosen {
			m.nav.Index = i
		}
		if r.slot == nil && i > 0 {
			m.lines = append(m.lines, line{row: i, is: lineGap})
		}
		m.lines = append(m.lines, line{row: i})
		if note(r) != "" {
			m.lines = append(m.lines, line{row: i, is: lineNote})
		}
	}
	m.nav.Clamp(len(m.rows))
	m.remember()
}
