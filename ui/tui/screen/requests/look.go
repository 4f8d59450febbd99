package requests

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

type look struct {
	screen.Base
	Services
	context, name string
	job           task.Handle
	readAt        time.Time
	view          request.View
	loaded        bool
	unasked       string // see [Model]
	err           error
	scroll        widget.Scroll
	then          func(*look) tea.Cmd // called once the request is read; may be nil
}

var _ screen.Poller = (*look)(nil)

type lookedMsg struct {
	id   task.ID
	view request.View
	err  error
}

type lookAskedMsg struct {
	context, name string
	view          request.View
}

func newLook(s Services, kubeContext, name string) *look {
	return &look{Services: s, context: kubeContext, name: name}
}

// ID implements [screen.Screen].
func (l *look) ID() screen.ID { return screen.Requests }

// Title implements [screen.Screen].
func (l *look) Title() string { return text.Clean(l.name) }

// Open implements [screen.Screen].
func (l *look) Open(now time.Time) tea.Cmd { return l.read(now) }

// Close implements [screen.Screen].
func (l *look) Close() { l.job.Cancel() }

// Animating implements [screen.Screen].
func (l *look) Animating() bool { return l.job.Active() }

// lookEvery is how often an approved request is read until it is signed: the list watches pending
// requests only.
const lookEvery = 2 * time.Second

// Poll implements [screen.Poller].
func (l *look) Poll(now time.Time) tea.Cmd {
	if !l.loaded || l.job.Active() || l.view.State != csr.Approved.String() || now.Sub(l.readAt) < lookEvery {
		return nil
	}
	return l.read(now)
}

func (l *look) read(now time.Time) tea.Cmd {
	l.readAt = now
	l.job.Cancel()
	by := l.Quiet.Requests
	if l.then != nil { // a decision is under way, so a prompt is in order
		by = l.Requests
	}
	h, cmd := l.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		v, err := inspect(ctx, by, l.context, l.name)
		return lookedMsg{id: id, view: v, err: err}
	})
	l.job = h
	return cmd
}

// Update implements [screen.Screen].
func (l *look) Update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case lookedMsg:
		if msg.id == l.job.ID {
			l.job.Done()
			if why, ok := errors.AsType[*cluster.UnaskedError](msg.err); ok {
				l.unasked, l.err = why.Why, nil // the data read last stays on the screen
				return nil
			}
			if l.err = msg.err; msg.err == nil {
				l.view, l.loaded, l.unasked = msg.view, true, ""
				if then := l.then; then != nil {
					l.then = nil
					return then(l)
				}
			}
		}
	case eventsMsg:
		for _, c := range msg.events { // a change in the cluster while the request is shown
			if l.loaded && c.row.uid == l.view.UID && c.row.state != l.view.State && !l.job.Active() {
				return l.read(now)
			}
		}
	case lookAskedMsg:
		if msg.name == l.name && msg.context == l.context {
			l.view, l.loaded, l.unasked, l.err = msg.view, true, "", nil
		}
	case screen.ChangedMsg:
		return l.read(now)
	case tea.KeyPressMsg:
		return l.key(msg, now)
	}
	return nil
}

func (l *look) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	cmd, ok := l.Press(k, l.Acts(), func() tea.Cmd { return l.read(now) })
	if !ok {
		l.scroll.Update(k, l.Keys)
	}
	return cmd
}

// Acts implements [screen.Actor].
func (l *look) Acts() screen.Acts {
	unread := screen.When(!l.loaded, "the request is not read yet")
	return append(l.asking(), screen.Acts{
		screen.On(screen.Action{Key: l.Keys.Approve, Reason: l.undecidable(true), Writes: true},
			approving, func() tea.Cmd { return l.decide(true) }),
		screen.On(screen.Action{Key: l.Keys.Deny, Reason: l.undecidable(false), Writes: true}, "csr deny",
			func() tea.Cmd { return l.decide(false) }),
		screen.On(screen.Action{Key: keys.As(l.Keys.Copy, "copy name"), Quiet: true}, "",
			func() tea.Cmd { return screen.Send(screen.CopyMsg{What: "name", Text: l.name}) }),
		screen.On(screen.Action{Key: l.Keys.CopyPrint, Reason: unread, Quiet: true}, "", func() tea.Cmd {
			return screen.Send(screen.CopyMsg{What: "fingerprint", Text: l.view.Fingerprint})
		}),
		screen.On(screen.Action{Key: l.Keys.Command, Quiet: true}, "", func() tea.Cmd {
			approve := l.by("approve", verb.Flag("accept-risk", strings.Join(l.view.Risks, ","))) // the screen refuses these
			return screen.Send(screen.CommandMsg{Title: present.SameTitle, Lines: []string{l.by("show"), approve, l.by("deny")}})
		}),
	}...)
}

func (l *look) asking() screen.Acts {
	if l.unasked == "" {
		return nil
	}
	kubeContext, name := l.context, l.name
	return screen.Acts{screen.On(screen.Action{Key: keys.As(l.Keys.Unlock, "unlock and read")}, "unlock", func() tea.Cmd {
		return screen.Operate(screen.Operation{Title: "Read the request", Command: l.by("show"),
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				if err := l.Unlock(ctx, kubeContext, p); err != nil {
					return screen.Report{}, err
				}
				v, err := inspect(ctx, l.Requests, kubeContext, name)
				if err != nil {
					return screen.Report{}, err
				}
				return screen.Report{Message: lookAskedMsg{kubeContext, name, v}}, nil
			}})
	})}
}

func (l *look) by(words string, options ...verb.Option) string {
	return line(l.context, "csr "+words, append([]verb.Option{verb.Argument(l.name)}, options...)...)
}

// undecidable is the reason why the request cannot be approved or denied now, "" if it can.
func (l *look) undecidable(approve bool) string {
	switch {
	case !l.loaded:
		return "the request is not read yet"
	case l.view.State != csr.Pending.String():
		return "it is " + text.Clean(l.view.State)
	case approve && len(l.view.Refusals) > 0:
		return text.Clean(l.view.Refusals[0])
	}
	return ""
}

func (l *look) judge(approve bool) tea.Cmd {
	if why := l.undecidable(approve); why != "" {
		return screen.Send(screen.ToastMsg{Text: why, Warn: true})
	}
	return l.decide(approve)
}

func (l *look) decide(approve bool) tea.Cmd {
	seen, kubeContext := l.view, l.context
	o, typed := request.DecideOptions{Approve: approve}, ""
	options := o.Options()
	form := []verb.Option{options[0]}
	title, intro := present.Decision(seen, approve)
	switch {
	case approve:
		form = []verb.Option{wordsOption(options[2], seen, &typed), options[0]}
		// requests of these groups take a second person
		if !slices.Contains(seen.Groups, request.BreakGlassGroup) {
			form = append(form, options[3])
		}
	case seen.TicketID() == "":
	case seen.Ticket == nil:
		intro += " The bootstrap token that it was filed with stays: others may use it."
	default:
		intro += " The ticket that it was filed with is ended, too."
	}
	d := dialog.NewOptions(l.Keys, title, intro, form, func(f *widget.Form) tea.Cmd {
		o.Words, o.User = "", ""
		if approve {
			if problem := misread(&o, seen, typed); problem != "" {
				f.Field("words").Problem = problem
				return nil
			}
		}
		risk := ""
		if o.User != "" {
			risk = request.RiskUser + o.User
		}
		command := l.by(map[bool]string{true: "approve", false: "deny"}[approve], append(options, verb.Flag("accept-risk", risk))...)
		return screen.Operate(screen.Operation{Title: strings.TrimSuffix(title, "?"), Command: command, Writes: true,
			Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
				v, err := carryOut(ctx, l.Services, kubeContext, seen, o)
				return screen.Report{Said: v.Name + ": " + v.State}, err
			}})
	})
	if approve {
		d.Noticed(present.Warned(seen)...)
	}
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

// wordsOption asks for the words of the key. They are required if there are warnings.
func wordsOption(words verb.Option, seen request.View, typed *string) verb.Option {
	words.Into = typed
	if seen.Warned() {
		words.Label, words.Empty = "Type", "the eight words"
		words.Note = "Because of the warnings: " + request.AnswersTo(seen) + "."
	}
	return words
}

// misread takes the typed words into o and returns what is wrong with them, if anything.
func misread(o *request.DecideOptions, seen request.View, typed string) string {
	typed = strings.TrimSpace(typed)
	switch {
	case seen.Warned() && !o.Answer(seen, typed):
		return "that does not match: type " + request.AnswersTo(seen)
	case seen.Warned() || typed == "":
	case !csr.SameWords(typed, seen.Words):
		return "these are not the words of this key: have them read out once more"
	default:
		o.Words = typed
	}
	return ""
}

// Actions implements [screen.Screen].
func (l *look) Actions() []screen.Action {
	scroll := keys.As(l.Keys.Down, "scroll")
	scroll.SetHelp("↑↓", "scroll")
	return slices.Insert(append(l.Acts().Actions(), screen.Action{Key: l.Keys.Refresh, Quiet: true}), len(l.asking())+2,
		screen.Action{Key: scroll}, screen.Action{Key: l.Keys.Back})
}

// View implements [screen.Screen].
func (l *look) View(f screen.Frame) string {
	t := f.Theme
	switch {
	case l.unasked != "" && !l.loaded:
		return widget.Block(strings.Join(widget.Lines(t, present.Unasked(l.unasked, "", "the request"), f.Width), "\n"),
			f.Width, f.Height)
	case l.err != nil:
		return widget.Block(strings.Join(append(widget.Failure(t, l.err, f.Width), "", t.Muted.Render("r tries again.")),
			"\n"), f.Width, f.Height)
	case !l.loaded:
		return widget.Block(widget.Working(t, "Looking at the request", l.job.Began, f.Now), f.Width, f.Height)
	}
	return l.scroll.View(t, l.body(t, f.Width, f.Now), f.Width, f.Height)
}

func (l *look) body(t theme.Theme, w int, now time.Time) []string {
	lines := widget.Lines(t, present.Verdicts(l.view), w)
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return append(lines, widget.Sections(t, present.Request(l.view, now), w)...)
}
