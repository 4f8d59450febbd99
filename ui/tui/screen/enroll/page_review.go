package enroll

import (
	"context"
	"errors"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/task"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// reviewPage shows what is about to be done before it is done: the choices, the
// notes, the commands, the kubeconfig diff.
type reviewPage struct {
	m      *wizard
	job    task.Handle
	err    error
	scroll widget.Scroll
}

type (
	reviewMsg struct {
		id     task.ID
		review enroll.Review
		err    error
	}
	restartMsg struct{}
	acceptMsg  struct{}
	// unverifiedMsg accepts a cluster that is not verified, by its host.
	unverifiedMsg struct{ host string }
)

func newReview(m *wizard) *reviewPage { return &reviewPage{m: m} }

func (p *reviewPage) enter(now time.Time) tea.Cmd {
	p.scroll.Top()
	p.m.plan.ready, p.err = false, nil
	if p.m.Store.Building() {
		return nil
	}
	return p.start(now)
}

func (p *reviewPage) start(now time.Time) tea.Cmd {
	p.job.Cancel()
	p.m.plan.ready, p.err = false, nil
	o := p.m.opts
	h, cmd := p.m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		r, err := p.m.Enroller.Review(ctx, o)
		return reviewMsg{id: id, review: r, err: err}
	})
	p.job = h
	return cmd
}

func (p *reviewPage) leave() { p.job.Cancel() }

func (p *reviewPage) typing() bool    { return false }
func (p *reviewPage) animating() bool { return p.job.Active() || p.m.Store.Building() }

func (p *reviewPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case reviewMsg:
		if msg.id == p.job.ID {
			p.job.Done()
			p.m.plan, p.err = plan{msg.review, msg.err == nil}, msg.err
		}
		return nil
	case store.ClusterReadyMsg:
		return p.start(now)
	case pukMsg:
		return p.start(now)
	case restartMsg:
		p.m.opts.Restart = true
		return p.start(now)
	case acceptMsg:
		p.m.opts.AcceptForecast, p.m.opts.AcceptDefaults = true, true
		return p.start(now)
	case unverifiedMsg:
		p.m.opts.AcceptUnverified = msg.host
		return p.start(now)
	case tea.KeyPressMsg:
		return p.key(msg, now)
	}
	return nil
}

// risks says what stands against going on, "" if nothing does or it was
// accepted: a request that will be refused, and secrets that everybody knows.
func (p *reviewPage) risks() string {
	if !p.m.plan.ready {
		return ""
	}
	o := p.m.plan.Options
	if refused := csr.Refused(p.m.plan.Forecast); len(refused) > 0 && !o.AcceptForecast {
		return "the request will be refused: " + text.Clean(refused[0].Reason)
	}
	if p.m.plan.Refused != nil {
		return text.Clean(ui.Message(p.m.plan.Refused))
	}
	return ""
}

// askAccept asks whether to go on all the same.
func (p *reviewPage) askAccept() tea.Cmd {
	d := dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Go on all the same?",
		Detail: "What stands against it: " + p.risks() + "."}, p.m.Keys, screen.Send(acceptMsg{}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *reviewPage) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	switch {
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, keyAccept()) && p.risks() != "":
		return p.askAccept()
	case key.Matches(k, keyAccept()) && p.unverified() != nil:
		return p.askUnverified()
	case key.Matches(k, keyPUK()) && p.joinsCard():
		return p.newPUK()
	case key.Matches(k, p.m.Keys.Enter) && p.m.plan.ready && p.risks() == "":
		return p.m.to(stageRun, now)
	case (key.Matches(k, p.m.Keys.Retry) || key.Matches(k, p.m.Keys.Enter)) && p.err != nil:
		return p.start(now)
	case key.Matches(k, p.m.Keys.Anew) && p.conflict() != nil:
		return p.askRestart()
	}
	p.scroll.Update(k, p.m.Keys)
	return nil
}

func (p *reviewPage) conflict() *enrolling.ConflictError {
	var c *enrolling.ConflictError
	if errors.As(p.err, &c) {
		return c
	}
	return nil
}

func (p *reviewPage) unverified() *cluster.UnverifiedError {
	var u *cluster.UnverifiedError
	if errors.As(p.err, &u) {
		return u
	}
	return nil
}

// askUnverified has the host of a cluster typed that is not verified.
func (p *reviewPage) askUnverified() tea.Cmd {
	u := p.unverified()
	d := dialog.NewConfirm(hsm.ConfirmPrompt{
		Question: "Enroll it without verifying it?", Type: u.Host,
		Detail: "The context does not verify its cluster: " + u.Consequence() + ".",
	}, p.m.Keys, screen.Send(unverifiedMsg{u.Host}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

// askRestart asks before what an earlier run did is forgotten.
func (p *reviewPage) askRestart() tea.Cmd {
	d := dialog.NewConfirm(hsm.ConfirmPrompt{
		Question: "Begin anew?",
		Detail: "What was begun under the name " + p.conflict().Name + " is forgotten here. " +
			"Keys on the token and requests on the cluster stay as they are.",
	}, p.m.Keys, screen.Send(restartMsg{}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *reviewPage) actions() []screen.Action {
	k := p.m.Keys
	a := []screen.Action{{Key: keys.As(k.Enter, "enroll"), Reason: p.risks(), Writes: true}, {Key: k.Back}}
	if p.risks() != "" {
		a = append(a, screen.Action{Key: keyAccept()})
	}
	if p.joinsCard() {
		a = append(a, screen.Action{Key: keyPUK(), Writes: true})
	}
	switch {
	case p.m.Store.Building():
		a[0].Reason = "the cluster is not ready yet"
	case p.err != nil:
		a = []screen.Action{{Key: k.Retry}, {Key: k.Back}}
		if p.conflict() != nil {
			a = append(a, screen.Action{Key: k.Anew})
		}
		if p.unverified() != nil {
			a = append(a, screen.Action{Key: keyAccept()})
		}
		return a
	case !p.m.plan.ready:
		a[0].Reason = "still working it out"
	}
	scroll := keys.As(k.Down, "scroll")
	scroll.SetHelp("↑↓", "scroll")
	return append(a, screen.Action{Key: scroll})
}

func (p *reviewPage) view(f screen.Frame) string {
	t := f.Theme
	lines := heading(t, "This is what will be done", f.Height)
	switch {
	case p.m.Store.Building():
		lines[0] = t.Title.Render("Ready but for the cluster")
		return strings.Join(append(lines, clusterProgress(p.m.Store, f)...), "\n")
	case p.err != nil:
		lines[0] = t.Title.Render("This cannot be done yet")
		lines = append(lines, widget.Failure(t, p.err, f.Width)...)
		again := "r tries again, esc goes back to change it."
		if p.conflict() != nil {
			again = "esc goes back to change it, a begins anew."
		}
		if p.unverified() != nil {
			again = "esc goes back to change it, A accepts the risk."
		}
		return strings.Join(append(lines, "", t.Muted.Render(again)), "\n")
	case !p.m.plan.ready:
		lines[0] = t.Title.Render("One moment")
		return strings.Join(append(lines, widget.Working(t, "Working out what is to be done", p.job.Began, f.Now)), "\n")
	}
	body := p.body(t, f.Width)
	return strings.Join(append(lines, p.scroll.View(t, body, f.Width, f.Height-len(lines))), "\n")
}

// body is all that is shown, in sections.
func (p *reviewPage) body(t theme.Theme, w int) []string {
	r := p.m.plan.Review
	lines := widget.Facts(t, present.ReviewFacts(r), w)
	section := func(title string) { lines = append(lines, "", t.Title.Render(title)) }
	if len(r.Forecast) > 0 {
		section(present.ForecastTitle)
		lines = append(lines, forecast(t, r.Forecast, w)...)
	}
	if notes := r.Notes; len(notes) > 0 {
		section("Notes")
		for _, n := range notes {
			for i, l := range text.Wrap(text.Clean(n), max(w-2, 1)) {
				lead := "  "
				if i == 0 {
					lead = t.Accent.Render(t.Glyphs.Dot) + " "
				}
				lines = append(lines, lead+t.Text.Render(l))
			}
		}
	}
	if len(r.Commands) > 0 {
		section(present.SameTitle)
		for _, c := range r.Commands {
			for i, l := range text.Wrap(text.Clean(c), max(w-2, 1)) {
				lead := "  "
				if i == 0 {
					lead = t.Accent.Render("$ ")
				}
				lines = append(lines, lead+t.Text.Render(l))
			}
		}
	}
	section(present.ChangesTitle(r.KubeconfigFile))
	if r.KubeconfigDiff == "" {
		return append(lines, t.Muted.Render(present.NoChanges))
	}
	return append(lines, widget.Diff(t, r.KubeconfigDiff, w)...)
}

func keyAccept() key.Binding { return keys.Letter("A", "accept the risk") }

// forecast draws the points, each with what it rests on.
func forecast(t theme.Theme, points []csr.Point, w int) []string {
	var lines []string
	for _, pt := range present.Forecast(points) {
		glyph, st, said := "?", t.Muted, pt.Reason+pt.Evidence
		switch pt.Verdict.Level {
		case present.Good:
			glyph, st, said = t.Glyphs.Done, t.Good, pt.Reason // the evidence of a good point is left to the command line
		case present.Warn:
			glyph, st = t.Glyphs.Warn, t.Warn
		case present.Bad:
			glyph, st = t.Glyphs.Failed, t.Bad
		}
		for i, l := range text.Wrap(said, max(w-2, 1)) {
			lead := "  "
			if i == 0 {
				lead = st.Render(glyph) + " "
			}
			lines = append(lines, lead+t.Text.Render(l))
		}
	}
	return lines
}
