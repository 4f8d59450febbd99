// Package roster is the board of a cluster's tokens: who has not come yet, who waits, who is in,
// and whose certificate ends.
package roster

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Services are what the screen works with; the root passes them.
type Services struct {
	screen.Tools
	Roster    desk.Roster
	Approvals desk.Approvals
	Bootstrap desk.BootstrapTokens
	// Unlock unlocks the token that a context signs in with.
	Unlock func(ctx context.Context, kubeContext string, p hsm.Prompter) error
	// Quiet reads and asks nobody: what the screen shows by itself is read so.
	Quiet desk.Roster
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	job     task.Handle
	readAt  time.Time // time of the latest answer, good or bad
	seenAt  time.Time // time of the latest board
	loaded  bool
	err     error
	unasked string // why the cluster is not read, "" if it is: somebody would have to be asked
	board   desk.Board
	tokens  widget.List[desk.RosterEntry]
}

var _ screen.Poller = (*Model)(nil)

type readMsg struct {
	id    task.ID
	board desk.Board
	err   error
}

// askedMsg is what was read where somebody could be asked.
type askedMsg struct{ board desk.Board }

// readEvery is how often the cluster is asked again.
const readEvery = 15 * time.Second

// New returns the screen.
func New(s Services) *Model {
	m := &Model{Services: s}
	m.tokens = widget.List[desk.RosterEntry]{
		Columns: []widget.Column{{Title: "STATE", Width: 9}, {Title: "OWNER"}, {Title: "SERIAL", Width: 10},
			{Title: "STILL GOOD", Width: 11}, {Title: "GROUPS", From: 72}, {Title: "MODEL", From: 96}},
		Key: func(e desk.RosterEntry) string { return e.Serial },
		Words: func(e desk.RosterEntry) string {
			r := present.RosterRowOf(e, time.Time{})
			return strings.Join([]string{r.Stage.Words, r.Owner, r.Serial, r.Groups, r.Model, r.Why}, " ")
		},
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Roster }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Roster" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd {
	m.job.Cancel()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		board, err := m.Quiet.Board(ctx, "", now)
		return readMsg{id, board, err}
	})
	m.job = h
	return cmd
}

// Close implements [screen.Screen].
func (m *Model) Close() { m.job.Cancel() }

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.tokens.Filter.Typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.job.Active() && !m.loaded }

// Poll implements [screen.Poller].
func (m *Model) Poll(now time.Time) tea.Cmd {
	if m.job.Active() || m.err != nil || now.Sub(m.readAt) < readEvery {
		return nil
	}
	return m.Open(now)
}

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case readMsg:
		if msg.id == m.job.ID {
			m.job.Done()
			m.take(msg, now)
		}
	case askedMsg:
		m.take(readMsg{board: msg.board}, now)
	case screen.ChangedMsg:
		return m.Open(now)
	case tea.KeyPressMsg, tea.PasteMsg, widget.RowMsg:
		if m.tokens.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.Open(now) })
			return cmd
		}
	}
	return nil
}

func (m *Model) take(msg readMsg, now time.Time) {
	m.loaded, m.readAt, m.err, m.unasked = true, now, msg.err, ""
	if why, ok := errors.AsType[*cluster.UnaskedError](msg.err); ok {
		m.unasked, m.err = why.Why, nil
	}
	if msg.err == nil {
		m.seenAt, m.board = now, msg.board
		m.tokens.Set(msg.board.Tokens)
	}
}

// asking is what reads the cluster where somebody has to be asked for that.
func (m *Model) asking() screen.Acts {
	if m.unasked == "" {
		return nil
	}
	return screen.Acts{screen.On(screen.Action{Key: keys.As(m.Keys.Unlock, "unlock and read")}, "unlock", func() tea.Cmd {
		return screen.Operate(screen.Operation{Title: "Read the roster", Command: "kubehsm roster list",
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				if err := m.Unlock(ctx, "", p); err != nil {
					return screen.Report{}, err
				}
				board, err := m.Roster.Board(ctx, "", time.Now())
				if err != nil {
					return screen.Report{}, err
				}
				return screen.Report{Message: askedMsg{board}}, nil
			}})
	})}
}

// Acts implements [screen.Actor].
func (m *Model) Acts() screen.Acts {
	e, ok := m.tokens.Selected()
	none := screen.When(!ok, "nothing is selected")
	return append(m.asking(), screen.Acts{
		screen.On(screen.Action{Key: keys.As(m.Keys.Enter, "see requests"),
			Reason: screen.Because(none, screen.When(e.Request == "", "no request of theirs waits or was denied"))}, "",
			func() tea.Cmd { return screen.Send(screen.GoMsg{To: screen.Requests}) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Approve, "approve the proven"), Writes: true},
			"csr approve", m.approve),
		screen.On(screen.Action{Key: keys.As(m.Keys.Delete, "lost or returned"),
			Reason: screen.Because(none, screen.When(e.Owner == "", "nobody has it")), Writes: true}, "roster remove",
			func() tea.Cmd { return m.remove(e) }),
		screen.On(screen.Action{Key: keys.Letter("n", "new join line"), Writes: true}, "roster line", m.line),
		screen.On(screen.Action{Key: keys.Letter("i", "import a list"), Writes: true}, "roster import", m.imports),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CommandMsg{Title: present.SameTitle, Lines: []string{"kubehsm roster list"}})
		}),
	}...)
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return screen.Filtering(m.Keys)
	}
	return append(m.Acts().Actions(), screen.Action{Key: m.Keys.Filter}, screen.Action{Key: m.Keys.Refresh, Quiet: true})
}
