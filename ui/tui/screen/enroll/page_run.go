package enroll

import (
	"context"
	"errors"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// runPage runs the enrollment and shows its steps. An error stays, with its hint, until the person
// tries again from there or leaves.
type runPage struct {
	m        *wizard
	job      task.Handle
	stopping bool
	stopped  bool
	steps    map[enrolling.Step]stepView
	err      error
	scroll   widget.Scroll
}

type stepView struct {
	state    enrolling.StepState
	message  string // raw
	approval *enrolling.Approval
	began    time.Time
}

type (
	eventMsg struct {
		id    task.ID
		event enrolling.Event
	}
	finishedMsg struct {
		id     task.ID
		result enrolling.Result
		err    error
	}
	stopMsg struct{}
)

func newRun(m *wizard) *runPage { return &runPage{m: m} }

func (p *runPage) active() bool { return p.job.Active() }

func (p *runPage) enter(now time.Time) tea.Cmd {
	if p.active() {
		return nil
	}
	return p.start(now)
}

func (p *runPage) start(now time.Time) tea.Cmd {
	p.steps = map[enrolling.Step]stepView{}
	p.err, p.stopping, p.stopped = nil, false, false
	r := &p.m.plan
	o := r.Options
	p.m.Store.Running = &store.Running{Name: o.Name}
	// Beginning anew happens once: trying again goes on from there.
	r.Options.Restart, p.m.opts.Restart = false, false
	h, cmd := p.m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		r, err := p.m.Enroller.Enroll(ctx, o, p.m.Prompter, func(e enrolling.Event) {
			p.m.Runner.Send(eventMsg{id: id, event: e})
		})
		if err == nil { // recorded first: whoever sees the result may leave at once
			p.m.Runner.Send(screen.ResultMsg{Result: r})
		}
		p.m.Runner.Send(finishedMsg{id: id, result: r, err: err}) // after the events, in order
		return nil
	})
	p.job = h
	return cmd
}

// leave cancels the running step. The steps that are done stay done.
func (p *runPage) leave() {
	p.job.Cancel()
	p.m.Store.Running = nil
}

func (p *runPage) typing() bool    { return false }
func (p *runPage) animating() bool { return p.active() }

func (p *runPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case eventMsg:
		if msg.id == p.job.ID {
			p.event(msg.event, now)
		}
	case finishedMsg:
		if msg.id == p.job.ID {
			return p.finished(msg, now)
		}
	case stopMsg, screen.InterruptedMsg:
		if p.active() {
			p.stopping = true
			p.job.Stop()
		}
	case tea.KeyPressMsg:
		return p.key(msg, now)
	}
	return nil
}

func (p *runPage) event(e enrolling.Event, now time.Time) {
	v := p.steps[e.Step]
	if e.State == enrolling.StepRunning && v.state != enrolling.StepRunning {
		v.began = now
	}
	v.state, v.approval = e.State, e.Approval
	if e.Message != "" {
		v.message = e.Message
	}
	p.steps[e.Step] = v
	if running := p.m.Store.Running; running != nil {
		running.Step, running.Approval = e.Step, e.Approval
	}
}

func (p *runPage) finished(msg finishedMsg, now time.Time) tea.Cmd {
	p.job.Done()
	name := p.m.plan.Options.Name
	if running := p.m.Store.Running; running != nil {
		running.Ended, running.Err, running.Approval = true, msg.err, nil
	}
	ended := screen.Send(screen.EnrolledMsg{Name: name, Err: msg.err})
	switch {
	case msg.err == nil:
		if j := p.m.plan.Options.Join; j != nil {
			j.Wipe()
		}
		p.m.result = msg.result
		p.m.trail = nil
		running := p.m.Store.Running
		shown := p.m.instead(stageResult, now)
		p.m.Store.Running = running // ends when the result was looked at
		return tea.Batch(shown, screen.Send(screen.ChangedMsg{}), ended)
	case p.stopping && (errors.Is(msg.err, context.Canceled) || errors.Is(msg.err, hsm.ErrCancelled)):
		p.stopped = true
	default:
		p.err = msg.err
	}
	for s, v := range p.steps {
		if v.state == enrolling.StepRunning {
			v.state = enrolling.StepPending
			if p.err != nil {
				v.state = enrolling.StepFailed
			}
			p.steps[s] = v
		}
	}
	return ended
}

func (p *runPage) approval() *enrolling.Approval {
	if v := p.steps[enrolling.StepApproval]; v.state == enrolling.StepRunning {
		return v.approval
	}
	return nil
}

func (p *runPage) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	keys := p.m.Keys
	switch {
	case p.stopping && p.active():
	case p.active():
		a := p.approval()
		switch {
		case key.Matches(k, keys.Back):
			return p.askStop()
		case a != nil && key.Matches(k, keys.Copy):
			return screen.Send(screen.CopyMsg{What: "line for the approver", Text: present.ForApprover(*a)})
		case a != nil && key.Matches(k, keyWords()):
			return screen.Send(screen.CopyMsg{What: "key's words", Text: a.Words})
		}
	case key.Matches(k, keys.Back):
		return p.m.back(now)
	case key.Matches(k, keys.Retry), key.Matches(k, keys.Enter):
		return p.start(now)
	case key.Matches(k, keys.Copy) && p.forAdmin() != "":
		return screen.Send(screen.CopyMsg{What: "request", Text: p.forAdmin()})
	}
	p.scroll.Update(k, keys)
	return nil
}

func (p *runPage) askStop() tea.Cmd {
	d := dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Stop here?",
		Detail: "Finished steps are kept: the enrollment can be resumed at any time."}, p.m.Keys, screen.Send(stopMsg{}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *runPage) forAdmin() string {
	var s *request.SendToAdmin
	if errors.As(p.err, &s) {
		return s.Text
	}
	return ""
}

func (p *runPage) actions() []screen.Action {
	k := p.m.Keys
	if p.active() {
		stop := screen.Action{Key: keys.As(k.Back, "stop, resume later")}
		if p.approval() == nil {
			return []screen.Action{stop}
		}
		return []screen.Action{{Key: keys.As(k.Copy, "copy line")}, {Key: keyWords()}, {Key: keys.As(k.Back, "stop")}}
	}
	again := keys.As(k.Retry, "try again")
	if p.stopped {
		again = keys.As(k.Retry, "resume")
	}
	a := []screen.Action{{Key: again}, {Key: k.Back}}
	if p.forAdmin() != "" {
		a = append(a, screen.Action{Key: keys.As(k.Copy, "copy for the admin")})
	}
	return a
}

func keyWords() key.Binding { return keys.Letter("w", "copy the words") }

func (p *runPage) view(f screen.Frame) string {
	t := f.Theme
	title := "Enrolling " + text.Clean(p.m.plan.Options.Name)
	switch {
	case p.stopping && p.active():
		title = "Stopping"
	case p.stopped:
		title = "Stopped"
	case p.err != nil:
		title = "Not finished"
	}
	lines := heading(t, title, f.Height)
	var body []string
	for _, s := range p.m.plan.Options.Steps() {
		body = append(body, p.step(f, s)...)
	}
	switch {
	case p.err != nil:
		body = append(append(body, ""), widget.Failure(t, p.err, f.Width)...)
		if s := p.forAdmin(); s != "" {
			body = append(body, "")
			for _, l := range strings.Split(text.CleanLines(s), "\n") {
				body = append(body, "  "+t.Text.Render(widget.Cut(l, f.Width-2)))
			}
		}
		body = append(body, "", t.Muted.Render("r tries again, esc goes back. Finished steps are kept."))
	case p.stopped:
		body = append(body, "", t.Text.Render("Finished steps are kept. r resumes the enrollment, now or another day."))
	}
	switch room := f.Height - len(lines); {
	case len(body) <= room:
	case p.err != nil:
		body = p.short(f, body)
	case p.approval() != nil: // the line to send and the words must be in view
		body = p.step(f, enrolling.StepApproval)
	}
	return strings.Join(append(lines, p.scroll.View(t, body, f.Width, f.Height-len(lines))), "\n")
}

// short leaves out the steps that are not reached yet, so that an error is in view.
func (p *runPage) short(f screen.Frame, body []string) []string {
	var out []string
	for _, s := range p.m.plan.Options.Steps() {
		if v := p.steps[s]; v.state == enrolling.StepFailed {
			out = append(out, p.step(f, s)...)
		}
	}
	for i, l := range body {
		if l == "" {
			return append(out, body[i+1:]...)
		}
	}
	return body
}

func (p *runPage) step(f screen.Frame, s enrolling.Step) []string {
	t, v := f.Theme, p.steps[s]
	name := widget.Fit(text.Clean(s.Title()), 22)
	clean := func(s string) string { return text.Clean(strings.ReplaceAll(s, "\n", " ")) }
	message := clean(v.message)
	room := f.Width - 2 - 22 - 2
	switch v.state {
	case enrolling.StepRunning:
		line := spinnerOrDot(f, v.began) + " " + t.Title.Render(name)
		if e := f.Now.Sub(v.began); e >= widget.ElapsedDelay {
			line += "  " + t.Muted.Render(present.Elapsed(e))
		}
		lines := []string{line}
		said := []string{message}
		if v.approval != nil {
			said = present.Approval(*v.approval)
		}
		for _, said := range said {
			for _, l := range widget.Paragraph(t.Text, clean(said), max(f.Width-4, 1)) {
				lines = append(lines, "    "+l)
			}
		}
		return lines
	case enrolling.StepDone:
		return []string{t.Good.Render(t.Glyphs.Done) + " " + t.Text.Render(name) + "  " +
			t.Muted.Render(widget.Cut(message, room))}
	case enrolling.StepReused:
		if message != "" {
			message += " "
		}
		return []string{t.Good.Render(t.Glyphs.Reused) + " " + t.Text.Render(name) + "  " +
			t.Muted.Render(widget.Cut(message+"("+present.Step(v.state)+")", room))}
	case enrolling.StepFailed:
		failed := t.Bad.Render(present.Step(v.state))
		if message != "" { // the last that was heard of it
			failed += t.Muted.Render(widget.Cut(" after: "+message, room-len(present.Step(v.state))))
		}
		return []string{t.Bad.Render(t.Glyphs.Failed) + " " + t.Strong.Render(name) + "  " + failed}
	}
	return []string{t.Faint.Render(t.Glyphs.Pending + " " + name)}
}

func spinnerOrDot(f screen.Frame, since time.Time) string {
	if f.Now.Sub(since) < widget.SpinnerDelay {
		return f.Theme.Accent.Render(f.Theme.Glyphs.On)
	}
	return widget.Spinner(f.Theme, since, f.Now)
}
