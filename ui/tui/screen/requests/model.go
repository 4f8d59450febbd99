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
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Services are what the screens work with; the root passes them.
type Services struct {
	screen.Tools
	Requests  request.Requests
	Own       request.Own
	Approvals desk.Approvals
	// Unlock unlocks the token that a context signs in with.
	Unlock func(ctx context.Context, kubeContext string, p hsm.Prompter) error
	// Quiet reads and asks nobody: what a screen shows by itself is read so.
	Quiet Quiet
}

// Quiet are the use cases of a look.
type Quiet struct {
	Requests request.Requests
	Own      request.Own
}

// row is what the list keeps of a request, so that ten thousand fit in memory.
type row struct {
	name, uid, requester, user, groups, signer, state string
	created                                           time.Time
	warnings                                          int
}

func rowOf(v request.View) row {
	return row{name: v.Name, uid: v.UID, requester: text.Clean(v.Requester), user: text.Clean(v.User),
		groups: text.Clean(strings.Join(v.Groups, ", ")),
		signer: text.Clean(v.SignerName), state: text.Clean(v.State), created: v.Created, warnings: len(v.Warnings)}
}

func (r row) pending() bool { return r.state == csr.Pending.String() }

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
	// forbidden is set if the user may not list requests: the requests filed from here are shown.
	forbidden *csr.ForbiddenError
	// unasked is the reason why the cluster is not read, "" if it is: it would need a person.
	unasked string
	record  bool      // the rows are what is on record here
	readAt  time.Time // time of the latest answer of the cluster
	again   bool      // the watch was begun again after the request's end
	err     error
	rows    map[string]row // rows by the UID of the request
	list    widget.List[row]
}

var _ screen.Poller = (*Model)(nil)

type (
	eventsMsg struct {
		id     task.ID
		events []change
	}
	change struct {
		row  row
		gone bool
	}
	// askedMsg is what was read where somebody could be asked.
	askedMsg struct {
		context string
		which   which
		events  []change
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
		Columns: []widget.Column{{Title: "AGE", Width: 6}, {Title: "STATE", Width: 9}, {Title: "FOR USER"},
			{Title: "GROUPS", From: 72}, {Title: "ASKED BY"}, {Title: "NAME", From: 100}, {Title: "SIGNER", From: 160}},
		Key: func(r row) string { return r.uid },
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
			m.readAt = now
			return announce(m.take(msg.events))
		}
	case endedMsg:
		if msg.id == m.job.ID {
			m.job.Done()
			if why, ok := errors.AsType[*cluster.UnaskedError](msg.err); ok {
				m.refrain(why.Why, msg.events, now)
				return nil
			}
			if m.lost(msg.err, now) {
				return m.start(now)
			}
			m.take(msg.events)
			m.err, m.loaded, m.unasked = msg.err, true, ""
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
	case askedMsg:
		if msg.context == m.context && msg.which == m.which && (m.unasked != "" || !m.loaded) {
			m.unasked, m.record, m.stale = "", false, true
			m.take(msg.events)
			m.stale, m.readAt = m.job.Active(), now
		}
	case screen.ChangedMsg:
		if m.which == mine || m.unasked != "" || m.err != nil {
			return m.start(now)
		}
	case tea.KeyPressMsg, tea.PasteMsg, widget.RowMsg:
		if m.list.Update(msg, m.Keys) {
			return nil
		}
		if k, ok := msg.(tea.KeyPressMsg); ok {
			return m.key(k, now)
		}
	}
	return nil
}

// tryEvery is how often reading the cluster without asking anybody is tried again.
const tryEvery = 15 * time.Second

// Poll implements [screen.Poller]: the token may have been unlocked elsewhere.
func (m *Model) Poll(now time.Time) tea.Cmd {
	if m.unasked == "" || m.job.Active() || now.Sub(m.since) < tryEvery {
		return nil
	}
	return m.start(now)
}

// lost reports whether reading may have ended with err because the token was locked.
func (m *Model) lost(err error, now time.Time) bool {
	if err == nil || !m.loaded || m.again && now.Sub(m.since) < tryEvery || errors.As(err, new(*csr.ForbiddenError)) {
		return false
	}
	m.again = true
	return true
}

// refrain shows what is known without asking anybody.
func (m *Model) refrain(why string, onRecord []change, now time.Time) {
	if m.record || m.which == mine || len(m.rows) == 0 {
		m.forget()
		m.record = true
		m.take(onRecord)
	}
	m.unasked, m.loaded, m.since, m.again = why, true, now, false
}

func announce(came []row) tea.Cmd {
	switch len(came) {
	case 0:
		return nil
	case 1:
		return screen.Send(screen.ToastMsg{Text: came[0].requester + " asks for a certificate for " + came[0].user})
	}
	return screen.Send(screen.ToastMsg{Text: present.Count(len(came), "new request")})
}

// take takes changes in and returns the requests filed since the screen was opened.
func (m *Model) take(changes []change) (came []row) {
	if m.which != mine {
		m.forbidden = nil
	}
	m.unasked = ""
	if m.loaded = true; m.stale {
		m.forget()
	}
	for _, c := range changes {
		switch {
		case c.row.uid == "" && c.row.name == "":
		case c.gone, m.which == pending && !m.record && !c.row.pending():
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

func (m *Model) forget() {
	m.stale, m.record = false, false
	clear(m.rows)
	m.list.Set(nil)
}

// id distinguishes requests; one that is deleted in the cluster has no UID.
func (r row) id() string {
	if r.uid != "" {
		return r.uid
	}
	return "/" + r.name
}

func (m *Model) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	if key.Matches(k, m.Keys.Next) {
		if m.which++; m.which > mine {
			m.which = pending
		}
		m.forget()
		return m.start(now)
	}
	cmd, _ := m.Press(k, m.Acts(), func() tea.Cmd { return m.start(now) })
	return cmd
}

// Acts implements [screen.Actor].
func (m *Model) Acts() screen.Acts {
	r, ok := m.list.Selected()
	do := deeds{m.Own, m.context}
	none := screen.When(!ok, "no request is selected")
	own := screen.Because(none, screen.When(m.which != mine && !m.record, "only what was filed from here: tab shows mine"))
	unfiled := screen.Because(own, screen.When(r.state != request.StateUnfiled, "it was filed"))
	allowed := screen.When(m.forbidden == nil, "you may list them")
	return append(asking(m), screen.Acts{
		screen.On(screen.Action{Key: keys.As(m.Keys.Enter, "look closer"), Reason: none}, "csr show", func() tea.Cmd {
			return screen.Send(screen.OpenMsg{Screen: newLook(m.Services, m.context, r.name)})
		}),
		screen.On(screen.Action{Key: keys.Letter("o", "role to ask for"), Reason: allowed, Quiet: m.forbidden == nil}, "",
			func() tea.Cmd { return screen.Send(role(m.forbidden)) }),
		screen.On(
			screen.Action{Key: keys.As(m.Keys.Delete, "withdraw"), Reason: own, Writes: true, Quiet: true},
			"csr cancel",
			func() tea.Cmd { return do.cancel(r) },
		),
		screen.On(screen.Action{Key: keys.Letter("s", "file it again"), Reason: unfiled, Writes: true, Quiet: true},
			"csr resume", func() tea.Cmd { return do.resume(r) }),
		screen.On(screen.Action{Key: keys.As(m.Keys.Copy, "copy name"), Reason: none, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "name", Text: r.name})
		}),
		screen.On(screen.Action{Key: m.Keys.Command, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CommandMsg{Title: present.SameTitle, Lines: m.commands(r, ok)})
		}),
	}...)
}

func asking(m *Model) screen.Acts {
	if m.unasked == "" {
		return nil
	}
	kubeContext, which := m.context, m.which
	return screen.Acts{screen.On(screen.Action{Key: keys.As(m.Keys.Unlock, "unlock and read")}, "unlock", func() tea.Cmd {
		return screen.Operate(screen.Operation{Title: "Read the cluster's requests",
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				if err := m.Unlock(ctx, kubeContext, p); err != nil {
					return screen.Report{}, err
				}
				changes, err := read(ctx, Quiet{m.Requests, m.Own}, kubeContext, which)
				if err != nil {
					return screen.Report{}, err
				}
				return screen.Report{Message: askedMsg{kubeContext, which, changes}}, nil
			}})
	})}
}

// Finds implements [screen.Finder].
func (m *Model) Finds(time.Time) iter.Seq[screen.Found] {
	return func(yield func(screen.Found) bool) {
		for _, r := range m.rows {
			decided := screen.When(!r.pending(), "it is "+r.state)
			open := func(after func(*look) tea.Cmd) func() tea.Cmd {
				return func() tea.Cmd {
					l := newLook(m.Services, m.context, r.name)
					l.then = after
					return screen.Send(screen.OpenMsg{Screen: l})
				}
			}
			found := screen.Found{Name: r.name, Words: "request " + r.user + " " + r.requester, Acts: screen.Acts{
				screen.On(screen.Action{Key: keys.As(m.Keys.Enter, "look closer")}, "csr show", open(nil)),
				screen.On(screen.Action{Key: m.Keys.Approve, Reason: decided, Writes: true}, approving,
					open(func(l *look) tea.Cmd { return l.judge(true) })),
				screen.On(screen.Action{Key: m.Keys.Deny, Reason: decided, Writes: true}, "csr deny",
					open(func(l *look) tea.Cmd { return l.judge(false) })),
			}, Select: func() { m.list.Select(r.uid) }}
			if !yield(found) {
				return
			}
		}
	}
}

const approving = "csr approve; helpdesk approve; breakglass approve"

// Below implements [screen.Opener].
func (m *Model) Below() screen.Acts { return newLook(m.Services, m.context, "").Acts() }

// role shows the role that an admin has to grant.
func role(forbidden *csr.ForbiddenError) screen.TextMsg {
	lines := append([]string{forbidden.Error(), "", "Send this to an admin of the cluster:", ""},
		strings.Split(forbidden.Grant(), "\n")...)
	return screen.TextMsg{Title: "The role to ask for", Lines: lines, What: "role", Copy: forbidden.Grant()}
}

type deeds struct {
	own     request.Own
	context string
}

func (d deeds) cancel(r row) tea.Cmd {
	command := line(d.context, "csr cancel", verb.Argument(r.name))
	return screen.Change("Withdraw the request", command, "the request is withdrawn",
		func(ctx context.Context, p hsm.Prompter) error {
			if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Withdraw " + r.name + "?",
				Detail: "The request is deleted from the cluster. The key stays."}); err != nil {
				return err
			}
			return d.own.Cancel(ctx, d.context, r.name)
		})
}

func (d deeds) resume(r row) tea.Cmd {
	return screen.Operate(screen.Operation{Title: "File the request",
		Command: line(d.context, "csr resume", verb.Argument(r.name)), Writes: true,
		Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
			v, err := d.own.Resume(ctx, d.context, r.name)
			return screen.Report{Said: v.Name + ": " + v.State}, err
		}})
}

// Actions implements [screen.Screen].
func (m *Model) Actions() []screen.Action {
	if m.Typing() {
		return screen.Filtering(m.Keys)
	}
	acts := m.Acts().Actions()
	first := len(asking(m)) + 1
	acts = slices.Insert(acts, first, screen.Action{Key: keys.As(m.Keys.Next, m.which.next())})
	return slices.Insert(acts, first+2, screen.Action{Key: m.Keys.Filter}, screen.Action{Key: m.Keys.Refresh})
}

func (w which) next() string {
	return map[which]string{pending: "show all", all: "show mine", mine: "show pending"}[w]
}
