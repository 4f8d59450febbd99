package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

type breakGlassFlags struct {
	enrollFlags
	lifetime time.Duration
}

func (f *breakGlassFlags) bindTo(flags *pflag.FlagSet) {
	f.bind(flags, enrolling.OfBreakGlass|enrolling.OfKey)
	reword(flags, map[string]string{
		"reason": "`words` to the second person, kept in every record (required)",
		"name":   "`name` of the enrollment and its context", "token": "`URI` of the token",
		"key": "`URI` of an existing key",
	})
	f.acceptRisk(flags, "use a token with a default PIN, PUK or management key: `"+enrolling.RiskDefaults+"`")
	f.bindBegin(flags)
}

func (a *app) breakglassRequest() *cobra.Command {
	var o *format
	var f breakGlassFlags
	c := a.command(&cobra.Command{
		Use:   "request --reason WORDS",
		Short: "Request a certificate with all rights, for an hour at most",
		Long: `Requests a certificate in the group kubehsm:break-glass for the key that you sign in
with, waits until a second person approves it ("kubehsm breakglass approve"), and
writes a context for it. The current context does not change.

When the certificate has expired, the same command requests another one.`,
		Example: `kubehsm breakglass request --reason 'INC-4711: the API is down'
kubehsm breakglass request --context prod-hsm --lifetime 20m --reason 'INC-4711'`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		shared, err := f.options(a.context)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		options, err := desk.NewBreakGlass(env).Request(c.Context(), desk.BreakGlassOptions{
			Context: a.context, Name: shared.Name, Reason: shared.Reason, Lifetime: f.lifetime,
			Token: shared.Token, Key: shared.Key,
			Generate: shared.Generate, AcceptDefaults: shared.AcceptDefaults, Timeout: shared.Timeout,
		})
		if err != nil {
			return usage(err)
		}
		return a.breakGlass(c.Context(), env, options, f.enrollFlags, o)
	})
	f.bindTo(c.Flags())
	c.Flags().DurationVar(&f.lifetime, "lifetime", desk.BreakGlassLifetime, "`lifetime` of the certificate, at "+
		"least 10m")
	o = output(c)
	return c
}

func (a *app) breakGlass(ctx context.Context, env *env.Env, options enrolling.Options, f enrollFlags, o *format) error {
	result, err := a.enrollReviewed(ctx, env, options, f)
	if err != nil || f.plan {
		return err
	}
	return a.emitResult(o, result)
}
