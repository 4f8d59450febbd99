// Package activity is the screen of what the agent does: which tokens are
// unlocked, who uses them, what was signed, what waits for a yes; and the audit
// log as it grows.
package activity

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// How far back the log is read, how many records are kept, and how often the
// agent is asked.
const (
	logSince    = 7 * 24 * time.Hour
	mostRecords = 2000
	askEvery    = time.Second
)

// Model is the screen.
type Model struct {
	screen.Base
	screen.Tools
	agent    session.Agent
	status   message.Status
	running  bool
	asked    bool
	err      error
	ask      task.Handle
	askedAt  time.Time
	log      task.Handle
	logErr   error
	records  []record // the oldest first
	last     int
	list     widget.List[record]
	sessions widget.List[present.Open]
	open     bool // shows open questions and sessions instead of the log
}

var _ screen.Screen = (*Model)(nil)
var _ screen.Poller = (*Model)(nil)

// record is a record of the log with a number that distinguishes it from equal ones.
type record struct {
	audit.Record
	number int
	said   present.AuditRow
}

type (
	statusMsg struct {
		id     task.ID
		status message.Status
		err    error
	}
	recordsMsg struct {
		id      task.ID
		records []record
	}
	logEndedMsg struct {
		id  task.ID
		err error
	}
)

// New returns the screen of an agent.
func New(t screen.Tools, agent session.Agent) *Model {
	m := &Model{Tools: t, agent: agent}
	m.list = widget.List[record]{
		Columns: []widget.Column{{Title: "WHEN", Width: 5}, {Title: "EVENT", Width: 11}, {Title: "OUTCOME", Width: 9},
			{Title: "ENROLLMENT", Width: 18, From: 64}, {Title: "PROGRAM", Width: 16, From: 84}, {Title: "DETAIL"}},
		Key: func(r record) string { return strconv.Itoa(r.number) },
		Words: func(r record) string {
			said := r.said
			return strings.Join([]string{said.Event, said.Outcome.Words, said.Enrollment, said.Program, said.Detail}, " ")
		},
	}
	m.sessions = widget.List[present.Open]{
		Columns: []widget.Column{{Title: "WHAT"}, {Title: "ENROLLMENT", Width: 20}, {Title: "STATE"}},
		Key:     func(o present.Open) string { return o.Key },
		Words:   func(o present.Open) string { return o.What + " " + o.Enrollment + " " + o.State },
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Activity }

// Title implements [screen.Screen].
func (m *Model) Title() string { return "Activity" }

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd { return tea.Batch(m.askAgent(now), m.follow(now)) }

// Close implements [screen.Screen].
func (m *Model) Close() {
	m.ask.Cancel()
	m.log.Cancel()
}

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.list.Filter.Typing() || m.sessions.Filter.Typing() }

// Poll implements [screen.Poller].
func (m *Model) Poll(now time.Time) tea.Cmd {
	if m.ask.Active() || now.Sub(m.askedAt) < askEvery/2 {
		return nil
	}
	return m.askAgent(now)
}

func (m *Model) askAgent(now time.Time) tea.Cmd {
	m.ask.Cancel()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		s, err := m.agent.AgentStatus(ctx)
		return statusMsg{id: id, status: s, err: err}
	})
	m.ask = h
	return cmd
}

// Several records are sent together, so that a long log is few messages.
const (
	batchMost = 200
	batchWait = 50 * time.Millisecond
)

func (m *Model) follow(now time.Time) tea.Cmd {
	m.log.Cancel()
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		in := make(chan record, batchMost)
		go task.Batch(in, batchMost, batchWait, func(all []record) { m.Runner.Send(recordsMsg{id: id, records: all}) })
		defer close(in)
		signatures := m.agent.Signatures()
		_, err := m.agent.Audit(ctx, audit.Filter{Since: now.Add(-logSince), Follow: true}, func(r audit.Record) error {
			in <- record{Record: r, said: present.AuditRowOf(r, signatures.Verify)}
			return nil
		})
		return logEndedMsg{id: id, err: err}
	})
	m.log = h
	return cmd
}

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case statusMsg:
		if msg.id == m.ask.ID {
			m.ask.Done()
			m.askedAt = now
			m.takeStatus(msg, now)
		}
	case recordsMsg:
		if msg.id == m.log.ID {
			m.takeRecords(msg.records)
		}
	case logEndedMsg:
		if msg.id == m.log.ID {
			m.logErr = msg.err
		}
	case screen.ChangedMsg:
		return m.askAgent(now)
	case tea.KeyPressMsg, tea.PasteMsg, widget.RowMsg:
		if m.open && m.sessions.Update(msg, m.Keys) || !m.open && m.list.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

func (m *Model) takeStatus(msg statusMsg, now time.Time) {
	m.asked, m.running, m.err = true, msg.err == nil, nil
	if msg.err != nil && !errors.Is(msg.err, client.ErrNotRunning) {
		m.err = msg.err
	}
	m.status = msg.status
	m.sessions.Set(present.OpenAt(msg.status, now))
}

func (m *Model) takeRecords(records []record) {
	for _, r := range records {
		m.last++
		r.number = m.last
		m.records = append(m.records, r)
	}
	m.records = slices.Clone(m.records[max(len(m.records)-mostRecords, 0):])
	shown := slices.Clone(m.records)
	slices.Reverse(shown)
	m.list.Set(shown)
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	if key.Matches(k, m.Keys.Next) {
		m.open = !m.open
		return nil
	}
	cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.Open(now) })
	return cmd
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return screen.Filtering(m.Keys)
	}
	other := "what is open"
	if m.open {
		other = "what happened"
	}
	return append(append([]screen.Action{{Key: keys.As(m.Keys.Next, other)}}, m.Acts().Actions()...),
		screen.Action{Key: m.Keys.Filter}, screen.Action{Key: m.Keys.Refresh, Quiet: true})
}
