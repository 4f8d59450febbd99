package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
)

type enrollFlags struct {
	optionFlags
	yes, tui, plan, spare bool
	drop                  bool
}

const enrolAlias = "enrol"

func (a *app) enroll() *cobra.Command {
	var o *format
	var f enrollFlags
	c := a.command(&cobra.Command{
		Use:     "enroll",
		Aliases: []string{enrolAlias},
		Short:   "Set up a key on a token, its certificate and a kubectl context",
		Long: `Generates a key on a token (or takes the one that --key names), files a certificate
request signed by the key, waits for the approval, stores the certificate and signs
in with it. Then it writes a kubeconfig context and makes it the current one.

On a terminal the command waits for the token to be inserted, and shows a summary
before it begins. User and groups are those of the context unless you name others. If
the token has default secrets, you choose a PIN, the token keeps a random management
key, and a random PUK is shown at the end.

With --spare, an enrollment gets the key of a second token, for the same user. The two
share one context: whichever token is there signs in.

To continue an interrupted enrollment, run the same command again, or enroll with
its --name alone.`,
		Example: `kubehsm enroll
kubehsm enroll --context prod --user jane --group dev
kubehsm enroll --name prod-hsm
kubehsm enroll --spare --name prod-hsm
kubehsm enroll --context prod --token 'piv:serial=1234567' --user jane --touch-policy cached --dry-run
kubehsm enroll --context trial --user jane --approve-with admin.kubeconfig --yes --pin-fd 3 3< pin`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		options, err := f.options(a.context)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		if f.drop {
			return a.dropEnrollment(c.Context(), env, options.Name, f.yes)
		}
		if f.tui {
			err := a.screen(c.Context(), TUIOptions{Env: env, Enroll: true, Options: options})
			if !plainTerminal(err) {
				return err
			}
		}
		return a.enrollByLines(c.Context(), env, options, f, o)
	})
	flags := c.Flags()
	f.bindTo(flags)
	f.bindSpare(flags)
	flags.BoolVar(&f.drop, "drop", false, "forget the unfinished enrollment that --name names, instead of continuing it")
	flags.BoolVar(&f.tui, "tui", false, "open the terminal UI with these values filled in")
	c.MarkFlagsMutuallyExclusive("tui", "dry-run")
	c.MarkFlagsMutuallyExclusive("drop", "tui")
	c.MarkFlagsMutuallyExclusive("drop", "dry-run")
	o = output(c)
	return c
}

func (a *app) dropEnrollment(ctx context.Context, env *env.Env, name string, yes bool) error {
	if name == "" {
		return ui.Usagef("--drop: name the unfinished enrollment with --name")
	}
	j, err := enrolling.NewStore(env).Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = hint.With(fmt.Errorf("no enrollment %q was begun here: %w", name, fs.ErrNotExist),
			"`kubehsm status` lists unfinished enrollments")
	}
	if err != nil {
		return err
	}
	if !j.Finished() {
		if err := a.confirmed(ctx, yes, present.DropQuestion(j.Options)); err != nil {
			return err
		}
	}
	if err := enroll.NewEnroller(env).Forget(ctx, name); err != nil {
		return err
	}
	w := a.out()
	w.line("%s: dropped", name)
	return w.flush()
}

func (f *enrollFlags) bindTo(flags *pflag.FlagSet) {
	f.bind(flags, enrolling.OfEnroll|enrolling.OfKey)
	f.acceptRisk(flags,
		"accept a `risk`: default-secrets enrolls a token with a default PIN, PUK or management key; forecast "+
			"files a request that is certain to be refused; unverified:HOST trusts whatever answers at that address")
	f.bindBegin(flags)
}

func (f *enrollFlags) bindBegin(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.yes, "yes", "y", false, "begin without asking")
	flags.BoolVar(&f.plan, "dry-run", false, "show what would be done, and change nothing")
}

func (f *enrollFlags) bindSpare(flags *pflag.FlagSet) {
	flags.BoolVar(&f.spare, "spare", false,
		"add the key of a second token to the enrollment that --name or the context names; the context stays as it is")
	annotate(flags, flagHeading, []string{enrolling.HeadingKey}, "spare")
}

func (f *enrollFlags) options(kubeContext string) (enrolling.Options, error) {
	o, err := f.read()
	o.Context, o.Spare = kubeContext, f.spare
	return o, err
}

func (a *app) enrollByLines(ctx context.Context, env *env.Env, options enrolling.Options, f enrollFlags,
	o *format) error {
	result, err := a.enrollReviewed(ctx, env, options, f)
	if err != nil || f.plan {
		return err
	}
	return a.emitResult(o, result)
}

// enrollReviewed shows the review, asks, and enrolls; a dry run stops after the review.
func (a *app) enrollReviewed(ctx context.Context, env *env.Env, options enrolling.Options,
	f enrollFlags) (enrolling.Result, error) {
	options.Guided = a.guides(f)
	if j := options.Join; j != nil && j.Endpoint != "" && isTerminal(a.Stderr) { // the discovery may take a minute
		w := a.err()
		w.line("looking for the cluster at %s", text.Clean(j.Endpoint))
		if err := w.flush(); err != nil {
			return enrolling.Result{}, err
		}
	}
	review, err := a.review(ctx, env, options)
	if err != nil {
		return enrolling.Result{}, err
	}
	if options.Key.Scheme == "" {
		if err := fits(f.given.Generate, review.Token.Kind()); err != nil {
			return enrolling.Result{}, err
		}
	}
	w, asked := a.err(), options.Guided && !f.plan
	switch {
	case f.plan:
		w = a.out()
		reviewWords(w, review)
	case asked:
		summaryWords(w, review)
	default:
		reviewWords(w, review)
	}
	if err := w.flush(); err != nil || f.plan {
		return enrolling.Result{}, err
	}
	if review.Refused != nil {
		return enrolling.Result{}, review.Refused
	}
	if g := &review.Options.Generate; g.Overwrite && review.Token.Kind().HasSlots() && options.Key.Scheme == "" {
		if g.Overwrite, err = a.confirmOverwrite(ctx, review.Options.Token, g.Slot); err != nil {
			return enrolling.Result{}, err
		}
	}
	begin := hsm.ConfirmPrompt{Question: "Begin?"}
	if asked {
		begin.DefaultYes, begin.More = true, reviewLines(review)
	}
	if err := a.confirmed(ctx, f.yes, begin); err != nil {
		return enrolling.Result{}, err
	}
	result, err := enroll.NewEnroller(env).Enroll(ctx, review.Options, a.prompter(),
		func(e enrolling.Event) { stepWords(a.Stderr, e) })
	if err != nil {
		return result, err
	}
	if isTerminal(a.Stdout) {
		a.closers = append(a.closers, func() error { return a.showPUK(&result) }) // last, where it catches the eye
		return result, nil
	}
	// The PUK is in force and must be shown before a closed pipe can end the program.
	return result, a.showPUK(&result)
}

// guides reports whether a person at a terminal goes through the enrollment.
func (a *app) guides(f enrollFlags) bool { return isTerminal(a.Stderr) && a.pinFD < 0 && !f.yes }

// review waits for the token first if a person goes through the enrollment.
func (a *app) review(ctx context.Context, env *env.Env, o enrolling.Options) (enroll.Review, error) {
	for vain := 0; ; {
		r, err := enroll.NewEnroller(env).Review(ctx, o)
		if !o.Guided || !errors.Is(err, hsm.ErrNoToken) || vain > 1 { // a wait would be nobody's, or in vain
			return r, err
		}
		full, _ := enroll.NewEnroller(env).Complete(ctx, o) // a record may name the token
		vain++                                              // an awaited token is not one that is there already
		wait := token.WaitOptions{
			Token:  full.Token.TokenOnly(),
			Except: full.Except,
			Waiting: func(p []hsm.Problem, others []hsm.TokenInfo) {
				vain = 0
				a.waiting(p, others)
			},
		}
		if o.Join != nil && full.Token.Scheme == "" {
			wait.Serial = o.Join.Serial
		}
		if _, err := (token.Tokens{Env: env}).Wait(ctx, wait); err != nil {
			return r, err
		}
	}
}

func summaryWords(w *words, r enroll.Review) {
	w.facts(present.ReviewSummary(r))
	for _, n := range r.Remarks() {
		w.line("note: %s", n)
	}
}

func reviewLines(r enroll.Review) []string {
	w := &words{}
	reviewWords(w, r)
	return strings.Split(strings.TrimRight(w.b.String(), "\n"), "\n")
}

func reviewWords(w *words, r enroll.Review) {
	w.facts(present.ReviewFacts(r))
	w.line("")
	if r.KubeconfigDiff == "" {
		w.line("%s: %s", present.ChangesTitle(r.KubeconfigFile), present.NoChanges)
	} else {
		w.line("%s:", present.ChangesTitle(r.KubeconfigFile))
		w.diff(r.KubeconfigDiff)
	}
	forecastWords(w, r.Forecast)
	for _, n := range r.Notes {
		w.line("note: %s", n)
	}
	if len(r.Commands) > 0 {
		w.line("%s:", present.SameTitle)
		for _, c := range r.Commands {
			w.line("  %s", c)
		}
	}
}

func stepWords(to io.Writer, e enrolling.Event) {
	if e.Approval != nil { // lines of their own, to be copied
		said := present.Approval(*e.Approval)
		_, _ = fmt.Fprintf(to, "%-11s  %s: %s\n  %s\n", "", e.Step.Title(), said[0], strings.Join(said[1:], "\n  "))
		return
	}
	message := text.Clean(e.Message)
	if message != "" {
		message = ": " + message
	}
	state := present.Step(e.State)
	switch {
	case e.State == enrolling.StepFailed: // the error follows
		message = ""
	case state == "" && (e.State != enrolling.StepRunning || message == ""):
		return
	}
	line := fmt.Sprintf("%-11s  %s%s", state, e.Step.Title(), message)
	_, _ = io.WriteString(to, line+"\n")
}

func resultWords(w *words, r enrolling.Result) {
	w.line("%s.", present.Enrolled(r))
	w.sections(present.Mend(r))
	if !r.Rights && r.Ask != "" {
		w.line("%s:", present.AskTitle)
		w.line("  %s", r.Ask)
	}
	w.facts(append(present.ResultFacts(r, time.Now()), present.RecordFacts(r)...))
	for _, n := range r.Notes {
		w.line("note: %s", n)
	}
	w.line("%s:", present.NextTitle)
	for _, n := range r.Next {
		w.line("  %s", n)
	}
}

func (a *app) emitResult(o *format, r enrolling.Result) error {
	return a.emit(o, r, func(w *words) { resultWords(w, r) })
}

func (a *app) showPUK(r *enrolling.Result) error {
	w := a.err()
	if r.PUK.Len() > 0 {
		what, keep := present.FreshPUK(*r)
		w.line("")
		w.line("%s: %s", what, r.PUK.Bytes())
		w.line("%s", keep)
		w.line("")
	}
	defer func() { r.PUK.Zero(); r.PUK = nil }()
	return w.flush()
}
