package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

type renewFlags struct {
	optionFlags
	newKey     bool
	with       string
	all, force bool
	yes        bool
}

func (f *renewFlags) options() (enroll.RenewOptions, error) {
	o, err := f.read()
	if err == nil && o.Generate.Overwrite {
		err = ui.Usagef("--overwrite: the old key must sign until the new one has its certificate")
	}
	return enroll.RenewOptions{Options: o, NewKey: f.newKey, With: f.with}, err
}

func (a *app) certificateRenew() *cobra.Command {
	var o *format
	var f renewFlags
	c := a.command(&cobra.Command{
		Use:   "renew [ENROLLMENT]",
		Short: "Request a new certificate before the old one expires",
		Long: `Requests a certificate for the same user and groups, signed in with the certificate
that is still valid, waits for the approval, and replaces the old certificate. The
key stays, unless --new-key makes another one. With --all, renews every certificate
that is due: when a third of its lifetime is left, or 30 days if that is less. In the
afternoon, a certificate that expires before ten o'clock on the next working day is
due too, and nothing is asked before it begins. To continue an interrupted renewal,
run the same command again.`,
		Example: `kubehsm certificate renew prod-hsm
kubehsm certificate renew prod-hsm --new-key
kubehsm certificate renew prod-hsm --with prod
kubehsm certificate renew --all --timeout 10m`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		options, err := f.options()
		if err != nil {
			return err
		}
		if f.all && len(args) > 0 {
			return ui.Usagef("name an enrollment, or use --all, not both")
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		if f.all {
			return a.renewAll(c.Context(), env, options, f.force, o)
		}
		_, e, err := a.enrolled(c.Context(), args)
		if err != nil {
			return err
		}
		now := time.Now()
		x, begun, err := enroll.NewRenewer(env).Of(e.Name, now)
		if err != nil {
			return err
		}
		if err := a.confirmed(c.Context(), f.yes, present.RenewQuestion(x, begun, now)); err != nil {
			return err
		}
		result, err := a.renewOne(c.Context(), env, e.Name, options)
		if err != nil {
			return err
		}
		return a.emit(o, result, func(w *words) { renewedWords(w, result) })
	})
	flags := c.Flags()
	f.bind(flags, enrolling.OfRenewal|enrolling.OfKey)
	reword(flags, map[string]string{
		"expiration": "`lifetime` of the certificate to ask for, at least 10m; default the same as before",
		"timeout":    "time limit for each approval, a `duration` such as 1h; default none",
	})
	f.acceptRisk(flags, "accept a `risk`: forecast files a request that is certain to be refused")
	flags.BoolVar(&f.newKey, "new-key", false,
		"generate a new key; the old one stays in use until the new one has its certificate")
	flags.StringVar(&f.with, "with", "",
		"kubeconfig `context` that files the request, if the old certificate cannot")
	flags.BoolVar(&f.all, "all", false, "renew every certificate that is due")
	flags.BoolVar(&f.force, "force", false, "with --all, renew certificates that are not due too")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.MarkFlagsMutuallyExclusive("all", "new-key")
	o = output(c)
	return c
}

func (a *app) renewOne(ctx context.Context, env *env.Env, name string, o enroll.RenewOptions) (enrolling.Result,
	error) {
	return enroll.NewRenewer(env).Renew(ctx, name, o, a.prompter(), func(e enrolling.Event) { stepWords(a.Stderr, e) })
}

// renewAll renews what is due, and continues after a failure.
func (a *app) renewAll(ctx context.Context, env *env.Env, o enroll.RenewOptions, force bool, out *format) error {
	all, err := enroll.NewRenewer(env).Expiring(time.Now())
	if err != nil {
		return err
	}
	doc := struct {
		Renewed []enrolling.Result `json:"renewed"`
		Failed  []failedDoc        `json:"failed,omitempty"`
	}{Renewed: []enrolling.Result{}}
	var errs []error
	for _, x := range all {
		if x.Err == nil && !x.Due && !force {
			continue
		}
		result, err := enrolling.Result{}, x.Err
		if err == nil {
			w := a.err()
			w.line("%s, until %s:", x.Name, present.Date(x.NotAfter))
			if err := w.flush(); err != nil {
				return err
			}
			result, err = a.renewOne(ctx, env, x.Name, o)
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, hsm.ErrCancelled) {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x.Name, err))
			doc.Failed = append(doc.Failed, failedDoc{x.Name, errorDocOf(err)})
			continue
		}
		doc.Renewed = append(doc.Renewed, result)
	}
	err = a.emit(out, doc, func(w *words) {
		for _, r := range doc.Renewed {
			renewedWords(w, r)
		}
		if len(doc.Renewed) == 0 && len(errs) == 0 {
			w.line("Nothing is due.")
		}
	})
	return errors.Join(append(errs, err)...)
}

type failedDoc struct {
	Name  string    `json:"name"`
	Error *errorDoc `json:"error"`
}

func renewedWords(w *words, r enrolling.Result) {
	w.line("%s", present.Renewed(r, time.Now()))
	for _, n := range r.Notes {
		w.line("note: %s", n)
	}
}
