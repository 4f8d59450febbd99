package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

type model struct {
	shared
	getenv    func(string) string
	clock     func() time.Time
	pollEvery time.Duration

	now        time.Time
	terminal   terminal
	nav        navigation
	dialogs    dialogs
	operations operations
	toasts     toasts
	waiting    waitings
	pointer    pointer
	readOnly   bool
	given      *enrolling.Options // options given at the start, for the first enrollment
	ticking    bool               // an animation tick is under way
	polling    bool               // a poll tick is under way
	outcome    Outcome
}

type (
	tickMsg struct{}
	pollMsg struct{}
)

type timing struct {
	clock                   func() time.Time
	grace, touchDelay, poll time.Duration
}

const testPoll = 50 * time.Millisecond

func newModel(ctx context.Context, o Options) *model {
	return newModelWith(ctx, o, timing{clock: time.Now, grace: dialog.Grace, touchDelay: dialog.TouchDelay, poll: store.Poll})
}

// Model returns the root model as [Run] shows it, for tests that drive it without a
// terminal: clock tells the time, and dialogs take keys at once. end ends its work.
func Model(ctx context.Context, o Options, clock func() time.Time) (root tea.Model, end func(grace time.Duration)) {
	m := newModelWith(ctx, o, timing{clock: clock, poll: testPoll})
	return m, m.close
}

func newModelWith(ctx context.Context, o Options, t timing) *model {
	flow := *o.Env
	all := shared{flow: &flow, runner: task.New(worker.WithWaiting(ctx, nil)), keys: keys.Default()}
	all.runner.Finishing = o.Finishing
	sources := store.Sources{Overview: func(ctx context.Context, now time.Time) overview.Status {
		return overview.Of(ctx, &flow, now)
	},
		Tokens: token.Tokens{Env: &flow}, Contexts: contexts.New(&flow),
		Unfinished: enrolling.NewStore(&flow)}
	all.store = store.New(sources, all.runner)
	dialogs := dialog.NewPrompter(all.runner.Send, all.keys, t.grace, t.touchDelay)
	all.prompter, all.dialogID = dialogs.Ask, dialogs.NextID
	flow.Prompter, flow.Waiting = all.prompter, waits(all.runner.Send, all.dialogID)
	screens := &factory{shared: all}
	m := &model{
		shared: all, clock: t.clock, pollEvery: t.poll, now: t.clock(), readOnly: o.ReadOnly, terminal: newTerminal(o.Environ),
		getenv: func(name string) string { return lookup(o.Environ, name) },
		nav:    navigation{sections: screens.sections()},
	}
	m.operations = operations{shared: all, dialogs: &m.dialogs, toasts: &m.toasts, readOnly: o.ReadOnly}
	m.nav.begin(o, screens)
	m.given = &screens.given
	return m
}

// Init implements [tea.Model]: the first frame waits for nothing.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.runner.Listen(), tea.RequestBackgroundColor, m.store.LoadOverview(m.now),
		m.store.LoadTokens(m.now), m.store.LoadContexts(m.now)}
	for _, s := range m.nav.here().stack {
		cmds = append(cmds, s.Open(m.now))
	}
	_, offers := m.runner.Start(m.now, func(ctx context.Context, _ task.ID) tea.Msg {
		responder := respond(m.prompter, m.dialogs.modal.Load)
		err := offer(ctx, func(ctx context.Context) error {
			return session.Agent{Env: m.flow}.OfferResponder(ctx, responder,
				nil)
		})
		if err != nil {
			return screen.ToastMsg{Text: "kubectl's questions cannot be asked here: " + err.Error(), Warn: true}
		}
		return nil
	})
	cmds = append(cmds, offers)
	return tea.Batch(append(cmds, m.timers())...)
}

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = m.clock()
	var cmds []tea.Cmd
	if r, ok := msg.(task.Received); ok {
		msg = r.Msg
		cmds = append(cmds, m.runner.Listen())
	}
	cmds = append(cmds, m.route(msg))
	m.toasts.expire(m.now)
	return m, tea.Batch(append(cmds, m.timers())...)
}

func (m *model) route(msg tea.Msg) tea.Cmd {
	if m.terminal.update(msg) {
		return nil
	}
	switch msg := msg.(type) {
	case tickMsg:
		m.ticking = false
		return m.toTop(msg)
	case pollMsg:
		m.polling = false
		return m.poll()
	case tea.KeyPressMsg:
		m.pointer.last = widget.Zone{}
		return m.key(msg)
	case tea.MouseClickMsg:
		return m.click(msg)
	case tea.PasteMsg:
		return m.toTop(msg)
	case tea.MouseWheelMsg:
		return m.wheel(msg)
	case dialog.OpenMsg:
		return m.dialogs.open(msg.ID, msg.Dialog, m.now)
	case dialog.CloseMsg:
		m.dialogs.close(msg.ID)
	default:
		return m.message(msg)
	}
	return nil
}

func (m *model) message(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case screen.OpenMsg:
		return m.nav.open(msg.Screen, m.now)
	case screen.BackMsg:
		m.nav.back()
		return nil
	case screen.GoMsg:
		return m.nav.goTo(msg, m.now)
	case pressMsg:
		return m.key(msg.key)
	case runMsg:
		return m.run(msg)
	case screen.ToastMsg:
		m.toasts.add(msg, m.now)
		return nil
	case screen.CopyMsg:
		return m.copy(msg)
	case screen.CommandMsg:
		return m.dialogs.open(0, dialog.NewCommand(m.keys, msg, m.operations.done), m.now)
	case screen.TextMsg:
		return m.dialogs.open(0, dialog.NewText(m.keys, msg), m.now)
	case screen.FailureMsg:
		return m.dialogs.open(0, dialog.NewFailure(m.keys, msg), m.now)
	case screen.OperationMsg:
		return m.operations.start(msg.Operation, m.now)
	case progressMsg:
		return m.operations.progressed(msg, m.now)
	case operatedMsg:
		cmd, ok := m.operations.ended(msg, m.now)
		if !ok {
			return nil
		}
		return tea.Batch(m.nav.update(screen.ChangedMsg{}, m.now), m.store.LoadOverview(m.now), cmd)
	case screen.EnrolledMsg:
		if m.nav.top().ID() != screen.Enroll { // the enroll screen is not shown
			m.toasts.enrolled(msg, m.now)
		}
		return m.store.LoadOverview(m.now)
	case waitMsg:
		m.waiting.take(msg)
		return nil
	case screen.ResultMsg:
		m.outcome.Result, *m.given = &msg.Result, enrolling.Options{}
	}
	if !m.store.Update(msg, m.now) {
		return nil
	}
	return m.nav.update(msg, m.now)
}

func (m *model) toTop(msg tea.Msg) tea.Cmd {
	if m.dialogs.any() {
		return m.dialogs.update(msg, m.now)
	}
	return m.nav.top().Update(msg, m.now)
}

// timers starts the ticks that are needed now. Nothing ticks for animations while nothing moves.
func (m *model) timers() tea.Cmd {
	var cmds []tea.Cmd
	moves := m.dialogs.any() && m.dialogs.top().Animating() || len(m.toasts) > 0 || m.nav.top().Animating()
	if !m.ticking && moves {
		m.ticking = true
		cmds = append(cmds, tea.Tick(widget.Frame, func(time.Time) tea.Msg { return tickMsg{} }))
	}
	if !m.polling { // every header shows it
		m.polling = true
		cmds = append(cmds, tea.Tick(m.pollEvery, func(time.Time) tea.Msg { return pollMsg{} }))
	}
	return tea.Batch(cmds...)
}

func (m *model) poll() tea.Cmd {
	var cmds []tea.Cmd
	if m.store.OverviewDue(m.now) {
		cmds = append(cmds, m.store.LoadOverview(m.now))
	}
	if every := m.nav.top().Watching(); every > 0 && m.store.TokensDue(m.now, every) {
		cmds = append(cmds, m.store.LoadTokens(m.now))
	}
	if p, ok := m.nav.top().(screen.Poller); ok {
		cmds = append(cmds, p.Poll(m.now))
	}
	return tea.Batch(cmds...)
}

func (m *model) close(grace time.Duration) {
	m.runner.Cancel() // first: a prompt that closes now is no refusal to answer
	m.dialogs.drop()
	m.nav.each(screen.Screen.Close)
	m.runner.Close(grace)
}
