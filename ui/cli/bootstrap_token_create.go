package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

// bootstrapTokenFlags have the names of kubeadm's.
type bootstrapTokenFlags struct {
	ttl         time.Duration
	usages      []string
	description string
	groups      []string
}

func (f *bootstrapTokenFlags) bind(flags *pflag.FlagSet) {
	flags.DurationVar(&f.ttl, "ttl", bootstraptoken.DefaultTTL, "lifetime of the token, a `duration`; 0: it never expires")
	flags.StringSliceVar(&f.usages, "usages", bootstraptoken.KnownUsages(), "uses of the token, a `list`")
	annotate(flags, flagChoices, bootstraptoken.KnownUsages(), "usages")
	flags.StringVar(&f.description, "description", "", "description for people who list tokens, a `text`")
	flags.StringSliceVar(&f.groups, "groups", []string{ticket.Group},
		"groups of whoever signs in with the token, a `list`; each begins with "+bootstraptoken.GroupPrefix)
}

func (f *bootstrapTokenFlags) record(token bootstraptoken.Token, withGroups bool) (bootstraptoken.Record, error) {
	r := bootstraptoken.Record{Token: token, Description: f.description, Usages: f.usages, Groups: f.groups}
	if !withGroups && !r.Authenticates() {
		r.Groups = nil // the default one is for those that do
	}
	var err error
	if r.Expires, err = bootstraptoken.ExpiresIn(time.Now(), f.ttl); err != nil {
		return r, usage(err)
	}
	return r, usage(r.Validate())
}

func (a *app) bootstrapTokenCreate() *cobra.Command {
	var o *format
	var f bootstrapTokenFlags
	var join, dryRun bool
	c := a.command(&cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Create a bootstrap token, with which a new user can join",
		Long: `Creates a bootstrap token in the cluster and shows it. Until it expires, whoever has
it can check that a server belongs to this cluster, and file a certificate request.
kubeadm can use the token too.

The default group may file requests (see "kubehsm rbac"). TOKEN is a bootstrap token
that was generated before ("kubehsm bootstrap-token generate"), a file that holds
one, or - for standard input. By default a new one is generated.`,
		Example: `kubehsm bootstrap-token create --ttl 2h --description 'for jane'
kubehsm bootstrap-token create --print-join-command
kubehsm bootstrap-token create --dry-run | kubectl create -f -`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		token, err := a.newBootstrapToken(c.Context(), args)
		if err != nil {
			return err
		}
		defer token.Wipe()
		r, err := f.record(token, c.Flags().Changed("groups"))
		if err != nil {
			return err
		}
		if dryRun {
			text, err := r.Manifest()
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(text)
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		v, err := desk.NewBootstrapTokens(env).Create(c.Context(), a.context, r, join)
		if err != nil {
			return usage(err)
		}
		w := a.err()
		for _, warning := range v.Warnings {
			w.line("warning: %s", warning)
		}
		if err := w.flush(); err != nil {
			return err
		}
		return a.emit(o, v, func(w *words) {
			if join {
				w.line("%s", v.Join)
			} else {
				w.line("%s", v.Token)
			}
		})
	})
	f.bind(c.Flags())
	c.Flags().BoolVar(&join, "print-join-command", false, "print the command that joins with it instead of the token")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the Secret that would be made, and make none")
	c.MarkFlagsMutuallyExclusive("dry-run", "print-join-command")
	o = output(c)
	return c
}

func (a *app) newBootstrapToken(ctx context.Context, args []string) (bootstraptoken.Token, error) {
	if len(args) == 0 {
		return bootstraptoken.Generate()
	}
	if args[0] == "" {
		return bootstraptoken.Token{}, ui.Usagef("TOKEN is empty")
	}
	return a.handedToken(ctx, "token", args[0])
}
