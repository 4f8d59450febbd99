package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// breakGlassFlags are the flags of breakglass request and seal.
type breakGlassFlags struct {
	name, token, key, reason, risk, user string
	generate                             generateFlags
	lifetime, timeout                    time.Duration
	yes, plan                            bool
}

func (f *breakGlassFlags) bind(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.reason, "reason", "", "`words` to the second person, kept in every record (required)")
	flags.StringVar(&f.name, "name", "", "`name` of the enrollment and its context")
	flags.StringVar(&f.token, "token", "", "`URI` of the token")
	flags.StringVar(&f.key, "key", "", "`URI` of an existing key")
	f.generate.bind(flags)
	flags.StringVar(&f.risk, "accept-risk", "", "use a token with a default PIN, PUK or management key: `"+enrolling.RiskFactory+"`")
	flags.DurationVar(&f.timeout, "timeout", 0, "how `long` to wait for the approval; default until it is interrupted")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask before it begins")
	flags.BoolVar(&f.plan, "dry-run", false, "show what would be done and do nothing")
}

// enroll are the flags that an enrollment shares.
func (f *breakGlassFlags) enroll() enrollFlags {
	e := enrollFlags{name: f.name, token: f.token, key: f.key, generate: f.generate, timeout: f.timeout, yes: f.yes, plan: f.plan}
	if f.risk != "" {
		e.risks = []string{f.risk}
	}
	return e
}

func (a *app) breakglassRequest() *cobra.Command {
	var o *format
	var f breakGlassFlags
	c := a.command(&cobra.Command{
		Use:   "request --reason WORDS",
		Short: "Ask for a certificate that may do everything, for an hour at most",
		Long: `Asks for a certificate of the group kubehsm:break-glass for the key that you sign in
with, waits until a second person approves it (kubehsm breakglass approve), and
makes a context of its own for it. The current context stays as it is.

Once it has expired, the same command asks again.`,
		Example: `kubehsm breakglass request --reason 'INC-4711: the API is down'
kubehsm breakglass request --context prod-hsm --lifetime 20m --reason 'INC-4711'`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		e := f.enroll()
		shared, err := e.options(a.context)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		options, err := desk.NewBreakGlass(env).Request(c.Context(), desk.BreakGlassOptions{
			Context: a.context, Name: f.name, Reason: f.reason, Lifetime: f.lifetime, Token: shared.Token, Key: shared.Key,
			Generate: shared.Generate, AcceptFactory: shared.AcceptFactory, Timeout: f.timeout,
		})
		if err != nil {
			return usage(err)
		}
		return a.breakGlass(c.Context(), env, options, f, o)
	})
	f.bind(c)
	c.Flags().DurationVar(&f.lifetime, "lifetime", desk.BreakGlassLifetime, "the certificate's `lifetime`, at least 10m")
	o = output(c)
	return c
}

// breakGlass enrolls, and keeps a record of it.
func (a *app) breakGlass(ctx context.Context, env *env.Env, options enrolling.Options, f breakGlassFlags, o *format) error {
	result, err := a.enrollReviewed(ctx, env, options, f.enroll())
	if err != nil || f.plan {
		return err
	}
	if err := desk.NewBreakGlass(env).Record(ctx, result, options.Reason); err != nil {
		return err
	}
	return a.emit(o, result, func(w *words) { resultWords(w, result) })
}
