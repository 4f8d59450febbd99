// Package desk is the help desk's screen: tickets and bootstrap tokens with
// how long they are still good, and what is there for emergencies.
package desk

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Services are what the screen works with; the root passes them.
type Services struct {
	screen.Tools
	Store *store.Store

	Tickets   desk.Tickets
	Bootstrap desk.BootstrapTokens
	// Unlock unlocks the token that a context signs in with.
	Unlock func(ctx context.Context, kubeContext string, p hsm.Prompter) error
	// Quiet reads and asks nobody: what the screen shows by itself is read so.
	Quiet       desk.BootstrapTokens
	BreakGlass  desk.BreakGlass
	Revocations desk.Revocations
	Stopping    desk.Stopping
	Trial       desk.Trial
	Enroller    enroll.Enroller
}

// Model is the screen.
type Model struct {
	screen.Base
	Services
	job     task.Handle
	readAt  time.Time
	loaded  bool
	err     error
	hidden  bool      // the caller may not list them
	unasked string    // why the cluster is not read, "" if it is: somebody would have to be asked
	seenAt  time.Time // time of the latest answer of the cluster
	notes   []string
	tokens  widget.List[row]
	glasses []desk.BreakGlassView
}

var _ screen.Screen = (*Model)(nil)
var _ screen.Poller = (*Model)(nil)

// row is a token, and the terms of the ticket that it belongs to.
type row struct {
	desk.BootstrapToken
	terms *ticket.Terms
}

func (r row) words() present.TokenRow { return present.TokenRowOf(r.BootstrapToken, time.Time{}) }

type readMsg struct {
	id      task.ID
	tokens  []desk.BootstrapToken
	hidden  bool
	unasked string
	notes   []string
	glasses []desk.BreakGlassView
	err     error
}

// askedMsg is what was read where somebody could be asked.
type askedMsg struct{ readMsg }

// readEvery is how often the cluster is asked again.
const readEvery = 15 * time.Second

// New returns the screen.
func New(s Services) *Model {
	m := &Model{Services: s}
	m.tokens = widget.List[row]{
		Columns: []widget.Column{{Title: "KIND", Width: 6}, {Title: "ID", Width: 6}, {Title: "STILL GOOD", Width: 12},
			{Title: "FOR"}, {Title: "USAGES", Width: 24, From: 96}},
		Key:   func(r row) string { return r.ID },
		Words: func(r row) string { return strings.Join([]string{r.words().Kind, r.ID, r.words().For}, " ") },
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.HelpDesk }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Help desk" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd {
	m.job.Cancel()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		msg := m.read(ctx, m.Quiet)
		msg.id = id
		return msg
	})
	m.job = h
	return cmd
}

// read reads what the screen shows, the cluster's part of it from all.
func (m *Model) read(ctx context.Context, all desk.BootstrapTokens) (msg readMsg) {
	msg.tokens, msg.notes, msg.err = all.List(ctx, "", false)
	if why, ok := errors.AsType[*cluster.UnaskedError](msg.err); ok {
		msg.unasked = why.Why
	}
	msg.hidden = errors.Is(msg.err, bootstraptoken.ErrForbidden) // as kubehsm's own role wants it
	if msg.hidden || msg.unasked != "" {
		msg.err = nil
	}
	var err error
	if msg.glasses, err = m.BreakGlass.List(); err != nil {
		msg.notes = append(msg.notes, err.Error())
	}
	return msg
}

// asking is what reads the cluster where somebody has to be asked for that.
func (m *Model) asking() screen.Acts {
	if m.unasked == "" {
		return nil
	}
	return screen.Acts{screen.On(screen.Action{Key: keys.As(m.Keys.Unlock, "unlock and read")}, "unlock", func() tea.Cmd {
		return screen.Operate(screen.Operation{Title: "Read the cluster's tickets", Command: "kubehsm bootstrap-token list",
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				if err := m.Unlock(ctx, "", p); err != nil {
					return screen.Report{}, err
				}
				msg := m.read(ctx, m.Bootstrap)
				if msg.err != nil {
					return screen.Report{}, msg.err
				}
				return screen.Report{Message: askedMsg{msg}}, nil
			}})
	})}
}

// Close implements [screen.Screen].
func (m *Model) Close() { m.job.Cancel() }

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.tokens.Filter.Typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.job.Active() && !m.loaded }

// Poll implements [screen.Poller]. What counts down is drawn by the clock.
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
		m.take(msg.readMsg, now)
	case screen.ChangedMsg:
		return m.Open(now)
	case tea.KeyPressMsg, tea.PasteMsg, widget.RowMsg:
		if m.tokens.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

func (m *Model) take(msg readMsg, now time.Time) {
	m.loaded, m.readAt, m.err, m.glasses = true, now, msg.err, msg.glasses
	m.notes, m.unasked = msg.notes, msg.unasked
	if msg.err != nil || msg.unasked != "" { // the data read last stays on the screen
		return
	}
	m.hidden, m.seenAt = msg.hidden, now
	rows := make([]row, 0, len(msg.tokens))
	for _, t := range msg.tokens {
		r := row{BootstrapToken: t}
		if terms, err := ticket.ParseDescription(t.Description); err == nil {
			r.terms = &terms
		}
		rows = append(rows, r)
	}
	m.tokens.Set(rows)
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.Open(now) })
	return cmd
}

// Acts implements [screen.Actor].
func (m *Model) Acts() screen.Acts {
	r, ok := m.tokens.Selected()
	do := work{Services: m.Services, row: r, selected: ok}
	none := screen.When(!ok, "nothing is selected")
	return append(m.asking(), screen.Acts{
		screen.On(screen.Action{Key: keys.Letter("t", "new ticket"), Writes: true}, "helpdesk ticket", do.newTicket),
		screen.On(screen.Action{Key: keys.Letter("n", "new token"), Writes: true}, "bootstrap-token create", do.newToken),
		screen.On(screen.Action{Key: m.Keys.Delete, Reason: none, Writes: true}, "bootstrap-token delete",
			func() tea.Cmd { return do.delete(r) }),
		screen.On(screen.Action{Key: m.Keys.Revoke, Writes: true}, "helpdesk revoke", do.revoke),
		screen.On(screen.Action{Key: m.Keys.BreakGlass, Writes: true}, "breakglass request", do.breakGlass),
		screen.On(screen.Action{Key: keys.Letter("C", "revoked certificates"), Quiet: true},
			"revocation list; revocation lift; revocation check; revocation set", do.revoked),
		screen.On(screen.Action{Key: keys.Letter("v", "verify an attestation"), Quiet: true}, "attestation verify",
			do.verify),
		screen.On(screen.Action{Key: keys.As(m.Keys.Copy, "copy ID"), Reason: none, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "ID", Text: r.ID})
		}),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CommandMsg{Title: present.SameTitle, Lines: []string{
				"kubehsm bootstrap-token list", "kubehsm helpdesk ticket --for USER -o qr", "kubehsm breakglass list"}})
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
