// Package requests is the screen of a cluster's certificate requests, followed
// live, and the closer look at one of them, where it is approved or denied with
// everything in view that speaks for it or against it.
package requests

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Backend is what the screens need of the use cases.
type Backend interface {
	Requests(ctx context.Context, kubeContext string, f flow.RequestFilter) (iter.Seq2[flow.RequestView, error], error)
	WatchRequests(ctx context.Context, kubeContext string, f flow.RequestFilter) (iter.Seq2[flow.RequestEvent, error], error)
	OwnRequests(ctx context.Context, kubeContext string) ([]flow.RequestView, error)
	Request(ctx context.Context, kubeContext, name string, look flow.RequestLook) (flow.RequestView, error)
	Decide(ctx context.Context, kubeContext string, seen flow.RequestView, o flow.DecideOptions) (flow.RequestView, error)
	CancelRequest(ctx context.Context, kubeContext, name string) error
}

// Services are what the screens work with; the root passes them.
type Services struct {
	Backend Backend
	Runner  *task.Runner
	Keys    keys.Map
}

// row is what the list keeps of a request: of ten thousand no more than this is
// in memory. The closer look reads the request itself.
type row struct {
	name, uid, requester, user, groups, signer, state string
	created                                           time.Time
	warnings                                          int
}

func rowOf(v flow.RequestView) row {
	return row{name: v.Name, uid: v.UID, requester: text.Clean(v.Requester), user: text.Clean(v.User), groups: text.Clean(strings.Join(v.Groups, ", ")),
		signer: text.Clean(v.SignerName), state: text.Clean(v.State), created: v.Created, warnings: len(v.Warnings)}
}

func (r row) pending() bool { return r.state == csr.Pending.String() }

// which requests are shown.
type which int

const (
	pending which = iota
	all
	mine
)

// Model is the list.
type Model struct {
	screen.Base
	Services
	context string // "" is the current one
	which   which
	job     task.Handle
	loaded  bool // the first page is here
	stale   bool // the rows are of an earlier reading
	since   time.Time
	// forbidden says that the cluster does not let us list: what was filed from
	// here is listed instead.
	forbidden *csr.ForbiddenError
	err       error
	rows      map[string]row // by UID
	list      widget.List[row]
}

var _ screen.Screen = (*Model)(nil)

type (
	eventsMsg struct {
		id     task.ID
		events []change
	}
	change struct {
		row  row
		gone bool
	}
	endedMsg struct {
		id     task.ID
		events []change
		err    error
	}
)

// New returns the list of the requests in the current context's cluster.
func New(s Services) *Model {
	m := &Model{Services: s, rows: map[string]row{}}
	m.list = widget.List[row]{
		Columns: []widget.Column{{Title: "AGE", Width: 6}, {Title: "STATE", Width: 9}, {Title: "FOR USER"}, {Title: "GROUPS", From: 72}, {Title: "ASKED BY"}, {Title: "NAME", From: 100}, {Title: "SIGNER", From: 160}},
		Key:     func(r row) string { return r.uid },
		Words: func(r row) string {
			return strings.Join([]string{r.name, r.requester, r.user, r.groups, r.signer, r.state}, " ")
		},
	}
	return m
}

// ID implements [screen.Screen].
func (m *Model) ID() screen.ID { return screen.Requests }

// Title implements [screen.Screen].
func (m *Model) Title() string {
	if m.context != "" {
		return "Requests in " + text.Clean(m.context)
	}
	return "Requests"
}

// Open implements [screen.Screen].
func (m *Model) Open(now time.Time) tea.Cmd { return m.start(now) }

// Close implements [screen.Screen].
func (m *Model) Close() { m.job.Cancel() }

// Typing implements [screen.Screen].
func (m *Model) Typing() bool { return m.list.Filter.Typing() }

// Animating implements [screen.Screen].
func (m *Model) Animating() bool { return m.job.Active() && !m.loaded }

// Update implements [screen.Screen].
func (m *Model) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case eventsMsg:
		if msg.id == m.job.ID {
			return m.announce(m.take(msg.events))
		}
	case endedMsg:
		if msg.id == m.job.ID {
			m.job.Done()
			m.take(msg.events)
			m.err, m.loaded = msg.err, true
			if m.which != mine && errors.As(msg.err, &m.forbidden) {
				m.which = mine
				return m.start(now)
			}
		}
	case screen.ArgumentMsg:
		if msg.To == screen.Requests && msg.Value != m.context {
			m.context = msg.Value
			m.forget()
			return m.start(now)
		}
	case screen.ChangedMsg:
		if m.which == mine {
			return m.start(now)
		}
	case tea.KeyPressMsg, tea.PasteMsg:
		if m.list.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

// announce says that requests came, whichever screen is in front.
func (m *Model) announce(came []row) tea.Cmd {
	switch len(came) {
	case 0:
		return nil
	case 1:
		return screen.Send(screen.ToastMsg{Text: came[0].requester + " asks for a certificate for " + came[0].user})
	}
	return screen.Send(screen.ToastMsg{Text: widget.Count(len(came), "new request")})
}

// take takes changes in and returns the requests that were filed since the
// screen was opened. Only what is pending is kept if only that is shown.
func (m *Model) take(changes []change) (came []row) {
	if m.which != mine {
		m.forbidden = nil
	}
	if m.loaded = true; m.stale {
		m.forget()
	}
	for _, c := range changes {
		switch {
		case c.row.uid == "" && c.row.name == "":
		case c.gone, m.which == pending && !c.row.pending():
			delete(m.rows, c.row.id())
		default:
			if _, known := m.rows[c.row.id()]; !known && c.row.pending() && c.row.created.After(m.since) {
				came = append(came, c.row)
			}
			m.rows[c.row.id()] = c.row
		}
	}
	rows := make([]row, 0, len(m.rows))
	for _, r := range m.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int {
		if c := b.created.Compare(a.created); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	m.list.Set(rows)
	return came
}

// forget drops all rows.
func (m *Model) forget() {
	m.stale = false
	clear(m.rows)
	m.list.Set(nil)
}

// id tells requests apart; one that is gone from the cluster has no UID.
func (r row) id() string {
	if r.uid != "" {
		return r.uid
	}
	return "/" + r.name
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	r, ok := m.list.Selected()
	switch {
	case key.Matches(k, m.Keys.Back):
		return screen.Send(screen.BackMsg{})
	case key.Matches(k, m.Keys.Refresh):
		return m.start(now)
	case key.Matches(k, keyAll()):
		if m.which++; m.which > mine {
			m.which = pending
		}
		m.forget()
		return m.start(now)
	case key.Matches(k, m.Keys.Command):
		return screen.Send(screen.CommandMsg{Title: "The same by command", Lines: m.commands(r, ok)})
	case key.Matches(k, keyRole()) && m.forbidden != nil:
		return screen.Send(m.role())
	case !ok:
	case key.Matches(k, m.Keys.Enter):
		return screen.Send(screen.OpenMsg{Screen: newLook(m.Services, m.context, r.name)})
	case key.Matches(k, m.Keys.Copy):
		return screen.Send(screen.CopyMsg{What: "name", Text: r.name})
	case key.Matches(k, keyCancel()) && m.which == mine:
		return m.cancel(r)
	}
	return nil
}

// The screen's own keys.
func keyAll() key.Binding     { return keys.Letter("a", "pending, all, mine") }
func keyCancel() key.Binding  { return keys.Letter("D", "take back") }
func keyApprove() key.Binding { return keys.Letter("a", "approve") }
func keyDeny() key.Binding    { return keys.Letter("d", "deny") }

func keyRole() key.Binding { return keys.Letter("o", "role to ask for") }

// role shows what an admin has to apply for us to see the requests.
func (m *Model) role() screen.TextMsg {
	lines := append([]string{m.forbidden.Error(), "", "Send this to an admin of the cluster:", ""}, strings.Split(m.forbidden.Grant(), "\n")...)
	return screen.TextMsg{Title: "The role to ask for", Lines: lines, What: "role", Copy: m.forbidden.Grant()}
}

// cancel takes one's own request back.
func (m *Model) cancel(r row) tea.Cmd {
	kubeContext := m.context
	return screen.Send(screen.OperationMsg{Operation: screen.Operation{Title: "Take the request back", Writes: true,
		Command: withContext("kubehsm csr cancel "+csr.ShellQuote(r.name), kubeContext),
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Take " + r.name + " back?", Detail: "The request is deleted from the cluster. The key stays."})
			if err == nil && !yes {
				err = hsm.ErrCancelled
			}
			if err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: "the request is taken back"}, m.Backend.CancelRequest(ctx, kubeContext, r.name)
		}}})
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return []screen.Action{{Key: keys.As(m.Keys.Enter, "keep")}, {Key: keys.As(m.Keys.Back, "clear")}}
	}
	none := ""
	if _, ok := m.list.Selected(); !ok {
		none = "no request is selected"
	}
	cancel := none
	if m.which != mine {
		cancel = "only what was filed from here: a shows mine"
	}
	allowed := ""
	if m.forbidden == nil {
		allowed = "you may list them"
	}
	return []screen.Action{{Key: keys.As(m.Keys.Enter, "look closer"), Reason: none}, {Key: keys.As(keyAll(), m.which.next())}, {Key: keyRole(), Reason: allowed, Quiet: m.forbidden == nil}, {Key: m.Keys.Filter},
		{Key: m.Keys.Refresh}, {Key: keyCancel(), Reason: cancel, Writes: true, Quiet: true},
		{Key: keys.As(m.Keys.Copy, "copy name"), Reason: none, Quiet: true}, {Key: m.Keys.Command, Quiet: true}}
}

func (w which) next() string {
	return map[which]string{pending: "show all", all: "show mine", mine: "show pending"}[w]
}
