package tui

import (
	"context"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/screen/enroll"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// model is the root: it routes, and owns what there is one of.
type model struct {
	backend  Backend
	runner   *task.Runner
	store    *store.Store
	keys     keys.Map
	prompter *dialog.Prompter
	clock    func() time.Time
	getenv   func(string) string

	look  theme.Options
	theme theme.Theme

	width, height int
	now           time.Time
	sections      []*section
	at            int // the section in front
	dialogs       []opened
	job           job
	done          []string // commands of operations that went well, the latest last
	readOnly      bool
	mouse         bool
	modal         atomic.Bool // a dialog is open, for who asks from outside
	toasts        []toast
	ticking       bool // an animation tick is under way
	polling       bool // a poll tick is under way
	draft         enroll.Draft
	outcome       Outcome
}

type opened struct {
	id     uint64
	dialog dialog.Dialog
}

type toast struct {
	text  string
	warn  bool
	until time.Time
}

// toastFor is how long a toast stays.
const toastFor = 4 * time.Second

type (
	tickMsg struct{}
	pollMsg struct{}
)

// timing holds what tests change.
type timing struct {
	clock             func() time.Time
	grace, touchDelay time.Duration
}

func newModel(ctx context.Context, o Options) *model {
	return newModelWith(ctx, o, timing{clock: time.Now, grace: dialog.Grace, touchDelay: dialog.TouchDelay})
}

func newModelWith(ctx context.Context, o Options, t timing) *model {
	m := &model{
		backend: o.Backend, runner: task.New(ctx), keys: keys.Default(), clock: t.clock, now: t.clock(),
		readOnly: o.ReadOnly, getenv: func(name string) string { return lookup(o.Env, name) },
		look: theme.Options{Profile: colorprofile.TrueColor, ASCII: theme.PlainCharset(o.Env)},
	}
	if v := lookup(o.Env, "KUBEHSM_MOUSE"); v != "" && v != "0" {
		m.mouse = true
	}
	m.theme = theme.New(m.look)
	m.store = store.New(o.Backend, m.runner, o.ClusterProgress)
	m.prompter = dialog.NewPrompter(m.runner.Send, m.keys, t.grace, t.touchDelay)
	m.backend.AskBy(m.prompter)
	m.sections = m.makeSections()
	m.sections[0].stack = []screen.Screen{m.sections[0].make()}
	if o.Start == ScreenEnroll {
		m.sections[0].stack = append(m.sections[0].stack, enroll.New(m.services(), enroll.Start{Options: o.Enroll}))
	}
	return m
}

func (m *model) services() enroll.Services {
	return enroll.Services{Backend: m.backend, Store: m.store, Runner: m.runner, Keys: m.keys, Prompter: m.prompter, Draft: &m.draft}
}

// enrollScreen makes the wizard, on a token if one is named.
func (m *model) enrollScreen(token *flow.TokenView, slot *hsm.Slot) screen.Screen {
	return enroll.New(m.services(), enroll.Start{Token: token, Slot: slot})
}

// Init implements [tea.Model]: the first frame waits for nothing.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.runner.Listen(), tea.RequestBackgroundColor, m.store.LoadTokens(m.now), m.store.LoadCluster(m.now)}
	for _, s := range m.here().stack {
		cmds = append(cmds, s.Open(m.now))
	}
	_, offers := m.runner.Start(m.now, func(ctx context.Context, _ task.ID) tea.Msg {
		if err := offer(ctx, m.backend, front{m.prompter, m.modal.Load}); err != nil {
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
	m.dropToasts()
	m.modal.Store(len(m.dialogs) > 0)
	return m, tea.Batch(append(cmds, m.timers())...)
}

// route gives msg to whom it concerns.
func (m *model) route(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		m.look.Light = !msg.IsDark()
		m.theme = theme.New(m.look)
	case tea.ColorProfileMsg:
		m.look.Profile = msg.Profile
		m.theme = theme.New(m.look)
	case tickMsg:
		m.ticking = false
		return m.toTop(msg)
	case pollMsg:
		m.polling = false
		return m.poll()
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.toTop(msg)
	case tea.MouseWheelMsg:
		return m.wheel(msg)
	case dialog.OpenMsg:
		return m.open(msg.ID, msg.Dialog)
	case dialog.CloseMsg:
		m.closeDialog(msg.ID)
	default:
		return m.message(msg)
	}
	return nil
}

// message handles what screens and the store send.
func (m *model) message(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case screen.OpenMsg:
		m.here().stack = append(m.here().stack, msg.Screen)
		return msg.Screen.Open(m.now)
	case screen.BackMsg:
		return m.back()
	case screen.GoMsg:
		return tea.Batch(m.goTo(msg.To), m.argument(msg))
	case pressMsg:
		return m.key(msg.key)
	case screen.ToastMsg:
		m.toast(msg.Text, msg.Warn)
		return nil
	case screen.CopyMsg:
		return m.copy(msg)
	case screen.CommandMsg:
		return m.open(0, dialog.NewCommand(m.keys, msg, m.done))
	case screen.TextMsg:
		return m.open(0, dialog.NewText(m.keys, msg))
	case screen.FailureMsg:
		return m.open(0, dialog.NewFailure(m.keys, msg))
	case screen.OperationMsg:
		return m.operate(msg.Operation)
	case progressMsg:
		return m.progressed(msg)
	case operatedMsg:
		return m.operated(msg)
	case screen.ResultMsg:
		m.outcome.Result = &msg.Result
	case store.ClusterReadyMsg:
		if msg.Awaited {
			m.toast("the cluster is ready", false)
		}
	}
	fresh, cmd := m.store.Update(msg, m.now)
	if !fresh {
		return cmd
	}
	return tea.Batch(cmd, m.toScreens(msg))
}

// toScreens gives msg to every screen, also those that are not in front.
func (m *model) toScreens(msg tea.Msg) tea.Cmd {
	var cmds []tea.Cmd
	for _, sec := range m.sections {
		for _, s := range sec.stack {
			cmds = append(cmds, s.Update(msg, m.now))
		}
	}
	return tea.Batch(cmds...)
}

// toTop gives msg to the top dialog, or else to the top screen.
func (m *model) toTop(msg tea.Msg) tea.Cmd {
	if n := len(m.dialogs); n > 0 {
		top := m.dialogs[n-1]
		closed, cmd := top.dialog.Update(msg, m.now)
		if closed {
			top.dialog.Drop()
			m.dialogs = m.dialogs[:n-1]
		}
		return cmd
	}
	return m.top().Update(msg, m.now)
}

func (m *model) open(id uint64, d dialog.Dialog) tea.Cmd {
	m.dialogs = append(m.dialogs, opened{id, d})
	return d.Open(m.now)
}

func (m *model) closeDialog(id uint64) {
	for i, o := range m.dialogs {
		if id != 0 && o.id == id {
			o.dialog.Drop()
			m.dialogs = append(m.dialogs[:i:i], m.dialogs[i+1:]...)
			return
		}
	}
}

func (m *model) toast(text string, warn bool) {
	const most = 3
	m.toasts = append(m.toasts, toast{text: text, warn: warn, until: m.now.Add(toastFor)})
	m.toasts = m.toasts[max(len(m.toasts)-most, 0):]
}

func (m *model) dropToasts() {
	for len(m.toasts) > 0 && !m.now.Before(m.toasts[0].until) {
		m.toasts = m.toasts[1:]
	}
}

// timers starts the ticks that are needed now: none while nothing moves.
func (m *model) timers() tea.Cmd {
	var cmds []tea.Cmd
	if !m.ticking && m.animating() {
		m.ticking = true
		cmds = append(cmds, tea.Tick(widget.Frame, func(time.Time) tea.Msg { return tickMsg{} }))
	}
	_, polls := m.top().(screen.Poller)
	if !m.polling && (m.store.Building() || m.top().Watching() || polls) {
		m.polling = true
		cmds = append(cmds, tea.Tick(store.ClusterEvery, func(time.Time) tea.Msg { return pollMsg{} }))
	}
	return tea.Batch(cmds...)
}

func (m *model) animating() bool {
	if n := len(m.dialogs); n > 0 && m.dialogs[n-1].dialog.Animating() {
		return true
	}
	return len(m.toasts) > 0 || m.top().Animating()
}

// poll looks again at what may have changed outside.
func (m *model) poll() tea.Cmd {
	var cmds []tea.Cmd
	if m.store.Building() {
		if _, busy := m.store.Cluster.Loading(); !busy {
			cmds = append(cmds, m.store.LoadCluster(m.now))
		}
	}
	if m.top().Watching() && m.store.TokensDue(m.now) {
		cmds = append(cmds, m.store.LoadTokens(m.now))
	}
	if p, ok := m.top().(screen.Poller); ok {
		cmds = append(cmds, p.Poll(m.now))
	}
	return tea.Batch(cmds...)
}

// close ends all work; nobody waits for an answer after it.
func (m *model) close(grace time.Duration) {
	m.runner.Cancel() // first: a prompt that closes now is no refusal to answer
	for _, o := range m.dialogs {
		o.dialog.Drop()
	}
	m.dialogs = nil
	for _, sec := range m.sections {
		for _, s := range sec.stack {
			s.Close()
		}
	}
	m.runner.Close(grace)
}
