package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
)

// enrollFlags are the flags of enroll.
type enrollFlags struct {
	optionFlags
	progress       string
	yes, tui, plan bool
}

func (a *app) enroll() *cobra.Command {
	var o *format
	var f enrollFlags
	c := a.command(&cobra.Command{
		Use:   "enroll",
		Short: "Take a key from nothing to a working kubectl context, in one command",
		Long: `Generates a key on a token (or takes the one that --key names), files a certificate
request signed by it, waits for the approval, stores the certificate and signs in
with it. Only then is a kubeconfig context written and made the current one.

Every step is recorded: the same command, or just --name, goes on where an
earlier run was interrupted.`,
		Example: `kubehsm enroll --context prod --user jane --group dev
kubehsm enroll --name prod-hsm
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
		if f.tui {
			a.offers = false // the screen is the terminal UI's
			err := a.TUI(c.Context(), TUIOptions{Env: env, Enroll: true, Options: options, ClusterProgress: f.progress})
			if !plainTerminal(err) {
				return err
			}
			a.offers = true
		}
		return a.enrollByLines(c.Context(), env, options, f, o)
	})
	flags := c.Flags()
	f.bindTo(flags)
	flags.BoolVar(&f.tui, "tui", false, "do it in the terminal UI, with these values filled in")
	flags.StringVar(&f.progress, "cluster-progress", "", "wait for the cluster that this progress `file` tells of")
	c.MarkFlagsMutuallyExclusive("tui", "dry-run")
	o = output(c)
	return c
}

// bindTo adds the flags that enroll, join and migrate share.
func (f *enrollFlags) bindTo(flags *pflag.FlagSet) {
	f.bind(flags, enrolling.OfEnroll|enrolling.OfKey)
	f.acceptRisk(flags,
		"enroll a token with a default PIN, PUK or management key (factory-secrets), file a request that is certain to be refused (forecast), or take whatever answers at an address for the cluster (unverified:HOST): `risk`")
	f.bindBegin(flags)
}

// bindBegin adds the flags for what comes before an enrollment begins.
func (f *enrollFlags) bindBegin(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask before it begins")
	flags.BoolVar(&f.plan, "dry-run", false, "show what would be done and do nothing")
}

// options turns the flags into those of the use case.
func (f *enrollFlags) options(kubeContext string) (enrolling.Options, error) {
	o, err := f.read()
	o.Context = kubeContext
	return o, err
}

// enrollByLines enrolls without the terminal UI.
func (a *app) enrollByLines(ctx context.Context, env *env.Env, options enrolling.Options, f enrollFlags,
	o *format) error {
	if f.progress != "" {
		if err := a.awaitCluster(ctx, f.progress); err != nil {
			return err
		}
	}
	result, err := a.enrollReviewed(ctx, env, options, f)
	if err != nil || f.plan {
		return err
	}
	return a.emit(o, result, func(w *words) { resultWords(w, result) })
}

// enrollReviewed shows what an enrollment would do, asks, and does it; a dry run
// ends with the first.
func (a *app) enrollReviewed(ctx context.Context, env *env.Env, options enrolling.Options,
	f enrollFlags) (enrolling.Result, error) {
	review, err := enroll.NewEnroller(env).Review(ctx, options)
	if err != nil {
		return enrolling.Result{}, err
	}
	if options.Key.Scheme == "" {
		if err := fits(f.given.Generate, review.Token.Kind()); err != nil {
			return enrolling.Result{}, err
		}
	}
	w := a.err()
	if f.plan {
		w = a.out()
	}
	reviewWords(w, review)
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
	if err := a.confirm(ctx, f.yes, "Begin?"); err != nil {
		return enrolling.Result{}, err
	}
	return enroll.NewEnroller(env).Enroll(ctx, review.Options, a.prompter(),
		func(e enrolling.Event) { stepWords(a.Stderr, e) })
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

// stepWords prints one line of progress. Nobody is left to tell if it fails.
func stepWords(to io.Writer, e enrolling.Event) {
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

// progressPoll is how often the cluster's progress file is read.
const progressPoll = 300 * time.Millisecond

// awaitCluster waits until the cluster that is being built can be used.
func (a *app) awaitCluster(ctx context.Context, file string) error {
	tick := time.NewTicker(progressPoll)
	defer tick.Stop()
	said := ""
	for {
		p, err := cluster.ReadProgress(file)
		if err != nil {
			return err
		}
		if p.Ready() {
			return nil
		}
		if p.Failed() {
			return hint.With(fmt.Errorf("the cluster could not be started: %s", p.Message),
				"mend that, then run the same command again")
		}
		line := "the cluster is " + text.Clean(p.Phase)
		if p.Total > 0 {
			line += fmt.Sprintf(": %d %%", 100*p.Done/p.Total)
		}
		if line != said {
			said = line
			if _, err := fmt.Fprintln(a.Stderr, line); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
