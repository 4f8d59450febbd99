package enroll

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
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

// reviewPage shows what will be done: obstacles first, then five lines, and all details on request.
// It waits for the token, and leads to the pages that change a choice.
type reviewPage struct {
	m       *wizard
	job     task.Handle
	err     error
	scroll  widget.Scroll
	details bool
	seen    []string // the tokens that were there when the review was begun
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
	p.details = false
	return p.start(now)
}

func (p *reviewPage) start(now time.Time) tea.Cmd {
	p.m.plan.ready, p.err = false, nil
	return p.again(now)
}

func (p *reviewPage) again(now time.Time) tea.Cmd {
	p.job.Cancel()
	p.seen = here(p.m.Store)
	o := p.m.opts
	o.Guided = true
	h, cmd := p.m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		r, err := p.m.Enroller.Review(ctx, o)
		return reviewMsg{id: id, review: r, err: err}
	})
	p.job = h
	return cmd
}

func (p *reviewPage) leave() { p.job.Cancel() }

func (p *reviewPage) typing() bool    { return false }
func (p *reviewPage) animating() bool { return p.job.Active() || p.awaited() }

func (p *reviewPage) awaited() bool { return errors.Is(p.err, hsm.ErrNoToken) }

func (p *reviewPage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case reviewMsg:
		if msg.id == p.job.ID {
			return p.reviewed(msg, now)
		}
		return nil
	case store.TokensMsg:
		if errors.Is(p.err, enroll.ErrSeveralCertificates) { // the review was quicker than the list of tokens
			return p.chooseCertificate(now)
		}
		if (p.m.plan.ready || p.awaited()) && !slices.Equal(p.seen, here(p.m.Store)) { // put in, or pulled out
			return p.again(now)
		}
		return nil
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

// reviewed shows the review. If there is nothing to propose, because there are several tokens or no
// cluster, the page with the choice takes its place.
func (p *reviewPage) reviewed(msg reviewMsg, now time.Time) tea.Cmd {
	p.job.Done()
	p.m.plan, p.err = plan{msg.review, msg.err == nil}, msg.err
	p.m.several = errors.Is(msg.err, enroll.ErrSeveralCertificates)
	cmd := p.chooseCertificate(now)
	switch {
	case p.m.several:
		return cmd
	case errors.Is(msg.err, hsm.ErrSeveralTokens):
		return p.m.instead(stageToken, now)
	case errors.Is(msg.err, enroll.ErrNoCluster):
		return p.m.instead(stageCluster, now)
	}
	return nil
}

func (p *reviewPage) chooseCertificate(now time.Time) tea.Cmd {
	p.m.refreshToken()
	if !p.m.several || p.m.token == nil {
		return nil
	}
	return p.m.instead(stageKey, now)
}

// obstacle is a reason not to continue, and the key that removes it.
type obstacle struct {
	err  error
	mend string // "A accepts it", "" if no key does
}

// obstacles are the reasons not to continue that were not accepted: a request that will be refused,
// default secrets, a key that the token cannot make.
func (p *reviewPage) obstacles() []obstacle {
	if !p.m.plan.ready {
		return nil
	}
	var all []obstacle
	if refused := csr.Refused(p.m.plan.Forecast); len(refused) > 0 && !p.m.plan.Options.AcceptForecast {
		err := errors.New("the request will be refused: " + refused[0].Reason)
		all = append(all, obstacle{err, "u changes it, A accepts the risk."})
	}
	switch err := p.m.plan.Refused; {
	case err == nil:
	case errors.Is(err, enroll.ErrDefaultSecrets):
		all = append(all, obstacle{err, "A accepts the risk."})
	case errors.Is(err, apierror.ErrUnreachable):
		all = append(all, obstacle{err, "r tries again, o chooses another cluster."})
	case errors.Is(err, hsm.ErrOccupied), errors.Is(err, hsm.ErrUnsupported):
		all = append(all, obstacle{err, "s chooses another key or slot."})
	default:
		all = append(all, obstacle{err: err})
	}
	return all
}

func (p *reviewPage) risks() string {
	if all := p.obstacles(); len(all) > 0 {
		return text.Clean(ui.Message(all[0].err))
	}
	return ""
}

// acceptable reports whether the person may continue in spite of the obstacles.
func (p *reviewPage) acceptable() bool {
	return slices.ContainsFunc(p.obstacles(), func(o obstacle) bool { return strings.Contains(o.mend, "A accepts") })
}

func (p *reviewPage) askAccept() tea.Cmd {
	d := dialog.NewConfirm(hsm.ConfirmPrompt{Question: "Continue anyway?",
		Detail: "Problems: " + p.risks() + "."}, p.m.Keys, screen.Send(acceptMsg{}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *reviewPage) acts(now time.Time) screen.Acts {
	k, m := p.m.Keys, p.m
	to := func(s stage) func() tea.Cmd { return func() tea.Cmd { return m.change(s, now) } }
	again := func() tea.Cmd { return p.start(now) }
	act := func(b key.Binding, do func() tea.Cmd) screen.Act {
		return screen.Act{Action: screen.Action{Key: b}, Do: do}
	}
	begin := screen.On(screen.Action{Key: keys.As(k.Enter, "enroll"), Writes: true, Reason: screen.Because(
		screen.When(
			p.awaited(),
			"there is no token yet",
		),
		p.risks(),
		screen.When(!m.plan.ready, "still preparing the plan"),
	)},
		"", func() tea.Cmd { return m.to(stageRun, now) })
	all := screen.Acts{begin}
	if p.err != nil && !p.awaited() {
		all = screen.Acts{act(k.Retry, again), {Action: screen.Action{Key: k.Enter, Quiet: true}, Do: again}}
	}
	if p.m.plan.ready && errors.Is(m.plan.Refused, apierror.ErrUnreachable) {
		all = append(all, act(k.Retry, again))
	}
	if p.conflict() != nil {
		all = append(all, act(k.Anew, p.askRestart))
	}
	switch {
	case p.unverified() != nil:
		all = append(all, act(keyAccept(), p.askUnverified))
	case p.acceptable():
		all = append(all, act(keyAccept(), p.askAccept))
	}
	if m.plan.ready {
		shown := "details"
		if p.details {
			shown = "in short"
		}
		all = append(all, act(keys.Letter("v", shown), func() tea.Cmd {
			p.details = !p.details
			p.scroll.Top()
			return nil
		}))
	}
	slot := act(keys.Letter("s", "key"), func() tea.Cmd {
		m.pin()
		return m.change(stageKey, now)
	})
	slot.Reason = screen.When(m.token == nil, "the token is not here")
	all = append(all, act(keys.Letter("u", "user"), to(stageSubject)), act(keys.Letter("t", "token"), to(stageToken)),
		slot, act(keys.Letter("o", "cluster"), to(stageCluster)))
	return append(all, act(k.Back, func() tea.Cmd {
		if p.details {
			p.details = false
			p.scroll.Top()
			return nil
		}
		return m.back(now)
	}))
}

func (p *reviewPage) key(k tea.KeyPressMsg, now time.Time) tea.Cmd {
	if cmd, ok := p.acts(now).Press(k); ok {
		return cmd
	}
	p.scroll.Update(k, p.m.Keys)
	return nil
}

func (p *reviewPage) actions() []screen.Action {
	scroll := keys.As(p.m.Keys.Down, "scroll")
	scroll.SetHelp("↑↓", "scroll")
	return append(p.acts(time.Time{}).Actions(), screen.Action{Key: scroll, Quiet: true})
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

// askUnverified has the person type the host of a cluster that its context does not verify.
func (p *reviewPage) askUnverified() tea.Cmd {
	u := p.unverified()
	d := dialog.NewConfirm(hsm.ConfirmPrompt{
		Question: "Enroll it without verifying it?", Type: u.Host,
		Detail: "The context does not verify its cluster: " + u.Consequence() + ".",
	}, p.m.Keys, screen.Send(unverifiedMsg{u.Host}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *reviewPage) askRestart() tea.Cmd {
	d := dialog.NewConfirm(hsm.ConfirmPrompt{
		Question: "Start over?",
		Detail: "What was begun under the name " + p.conflict().Name + " is forgotten here. " +
			"Keys on the token and requests on the cluster stay as they are.",
	}, p.m.Keys, screen.Send(restartMsg{}))
	return screen.Send(dialog.OpenMsg{Dialog: d})
}

func (p *reviewPage) view(f screen.Frame) string {
	t := f.Theme
	lines := heading(t, "This is what will be done", f.Height)
	switch {
	case p.awaited():
		lines[0] = t.Title.Render("Insert your key")
		return strings.Join(append(lines, p.waiting(f)...), "\n")
	case p.err != nil:
		lines[0] = t.Title.Render("This is not possible yet")
		lines = append(lines, widget.Failure(t, p.err, f.Width)...)
		again := "r tries again"
		if errors.Is(p.err, enroll.ErrNoUser) {
			again = "u sets the user, " + again
		}
		switch {
		case p.conflict() != nil:
			again = "u changes the user, a starts over."
		case p.unverified() != nil:
			again += ", A accepts the risk."
		default:
			again += ". Change it: u user, t token, o cluster."
		}
		return strings.Join(append(append(lines, ""), widget.Paragraph(t.Muted, again, f.Width)...), "\n")
	case !p.m.plan.ready:
		lines[0] = t.Title.Render("One moment")
		return strings.Join(append(lines, widget.Working(t, "Preparing the plan", p.job.Began, f.Now)), "\n")
	}
	body := p.summary(t, f.Width)
	if p.details {
		body = p.body(t, f.Width)
	}
	return strings.Join(append(lines, p.scroll.View(t, body, f.Width, f.Height-len(lines))), "\n")
}

func (p *reviewPage) waiting(f screen.Frame) []string {
	t := f.Theme
	spin := widget.Spinner(t, time.Time{}, f.Now)
	lines := []string{spin + " " + t.Text.Render("The enrollment continues when the token is there.")}
	views := p.m.Store.Tokens.Value.Views
	if len(views) == 0 {
		if n := len(p.m.Store.Tokens.Value.Problems); n > 0 {
			lines = append(lines, "", t.Warn.Render(t.Glyphs.Warn)+" "+
				t.Muted.Render(present.Count(n, "module")+" could not be read; esc shows which."))
		}
		return lines
	}
	lines = append(lines, "")
	said := "These tokens are here, but not the right one"
	switch j := p.m.opts.Join; {
	case p.m.opts.Token.Scheme != "":
		said += ", " + text.Clean(p.m.opts.Token.TokenOnly().String())
	case j != nil && j.Serial != "":
		said += ", with the serial number " + text.Clean(j.Serial)
	default:
		said = "These tokens are here, but cannot be used yet"
	}
	lines = append(lines, widget.Paragraph(t.Warn, t.Glyphs.Warn+" "+said+":", f.Width)...)
	for _, v := range views {
		line := "  " + present.Token(v.Info) + "  " + text.Clean(v.Info.URI().String())
		if why := present.Unusable(v.Info); why != "" {
			line = "  " + present.Token(v.Info) + ": " + why
		}
		lines = append(lines, t.Text.Render(widget.Cut(line, f.Width)))
	}
	return append(lines, "", t.Muted.Render("t chooses one of them."))
}

func (p *reviewPage) summary(t theme.Theme, w int) []string {
	r := p.m.plan.Review
	var lines []string
	for _, o := range p.obstacles() {
		lines = append(lines, widget.Failure(t, o.err, w)...)
		if o.mend != "" {
			lines = append(lines, widget.Paragraph(t.Text, o.mend, w)...)
		}
		lines = append(lines, "")
	}
	lines = append(lines, widget.Facts(t, present.ReviewSummary(r), w)...)
	lines = append(lines, "")
	lines = append(lines, notes(t, r.Remarks(), w)...)
	const otherwise = "Change: u user and context, t token, s key, o cluster. v shows all of it."
	return append(lines, widget.Paragraph(t.Muted, otherwise, w)...)
}

func (p *reviewPage) body(t theme.Theme, w int) []string {
	r := p.m.plan.Review
	lines := widget.Facts(t, present.ReviewFacts(r), w)
	section := func(title string) { lines = append(lines, "", t.Title.Render(title)) }
	if len(r.Forecast) > 0 {
		section(present.ForecastTitle)
		lines = append(lines, forecast(t, r.Forecast, w)...)
	}
	if len(r.Notes) > 0 {
		section("Notes")
		lines = append(lines, notes(t, r.Notes, w)...)
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

func notes(t theme.Theme, all []string, w int) []string {
	var lines []string
	for _, n := range all {
		for i, l := range text.Wrap(text.Clean(n), max(w-2, 1)) {
			lead := "  "
			if i == 0 {
				lead = t.Accent.Render(t.Glyphs.Dot) + " "
			}
			lines = append(lines, lead+t.Text.Render(l))
		}
	}
	return lines
}

func keyAccept() key.Binding { return keys.Letter("A", "accept the risk") }

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
