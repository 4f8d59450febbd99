package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// joinFlags have kubeadm's names where kubeadm has such a flag.
type joinFlags struct {
	enroll enrollFlags

	token, discoveryToken, bootstrapToken, file string
	hashes                                      []string
	unsafe                                      bool
	ticket, certificate                         string
	discoveryTimeout                            time.Duration
}

func (a *app) join() *cobra.Command {
	var o *format
	var f joinFlags
	c := a.inEnv(&cobra.Command{
		Use:   "join [ADDRESS]",
		Short: "Join a cluster with a ticket, or an address and a bootstrap token",
		Long: `Finds the cluster and checks its identity, makes a key on a token, files a certificate
request for it with the bootstrap token, waits for the approval, stores the certificate
and signs in. Then it writes a kubeconfig context and makes it the current one.

A ticket of the help desk is one line with everything that is needed. Without a ticket,
use the flags of kubeadm: an address, a bootstrap token and the hash of the cluster's
certificate authority; or a discovery file. Without --user, the certificate is for the
owner of the token on the cluster's roster. No credential is sent before the cluster
has proven its identity.

Give tickets and tokens in a file, on standard input (-), or at the prompt: other users
of the computer can read command lines. They are not stored. To continue an interrupted
join, give them again with --name.`,
		Example: `kubehsm join --ticket -
kubehsm join 10.0.0.1:6443 --token token.txt --discovery-token-ca-cert-hash sha256:1234… --user jane --group dev
kubehsm join --discovery-file https://example.org/cluster.conf --tls-bootstrap-token - --user jane
kubehsm join --name prod --ticket ticket.txt
kubehsm join --name prod --certificate sent.pem`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string, env *env.Env) error {
		if !a.guides(f.enroll) {
			if err := f.refuseDefaults(c.Context(), env); err != nil {
				return err
			}
		}
		options, err := f.options(a, c, args)
		if err != nil {
			return usage(err)
		}
		if j := options.Join; f.certificate == "" && (j == nil || j.Endpoint == "" && j.File == "") {
			if err := enroll.NewJoins(env).Begun(options.Name); err != nil {
				return usage(err)
			}
		}
		if f.certificate != "" {
			pem, err := a.readAll(f.certificate)
			if err != nil {
				return err
			}
			if err := enroll.NewJoins(env).TakeCertificate(c.Context(), options.Name, pem); err != nil {
				return err
			}
		}
		return usage(a.enrollByLines(c.Context(), env, options, f.enroll, o))
	})
	flags := c.Flags()
	flags.StringVar(&f.ticket, "ticket", "",
		"`file` with the help desk's ticket, - for standard input; asked for if nothing else names the cluster")
	flags.StringVar(&f.token, "token", "",
		"`file` with the bootstrap token, - for standard input; asked for if missing")
	flags.StringVar(&f.discoveryToken, "discovery-token", "",
		"`file` with another bootstrap token for discovery; - for standard input")
	flags.StringVar(&f.bootstrapToken, "tls-bootstrap-token", "",
		"`file` with another bootstrap token, or a file-only token, for the request; - for standard input")
	flags.StringSliceVar(&f.hashes, "discovery-token-ca-cert-hash", nil,
		"`hash` of the cluster's certificate authority, as sha256:HEX; may be repeated")
	flags.BoolVar(&f.unsafe, "discovery-token-unsafe-skip-ca-verification", false,
		"take any server that knows the bootstrap token for the cluster")
	flags.StringVar(&f.file, "discovery-file", "",
		"discovery `file` or its https URL; - for standard input")
	flags.DurationVar(&f.discoveryTimeout, "discovery-timeout", 0,
		"time limit for finding the cluster, a `duration`; default "+span.Limit(discovery.DefaultTimeout))
	flags.StringVar(&f.certificate, "certificate", "",
		"continue with the certificate in this `file` from the help desk")
	annotate(flags, flagHeading, []string{headingCluster}, "ticket", "token", "discovery-token", "tls-bootstrap-token",
		"discovery-token-ca-cert-hash", "discovery-token-unsafe-skip-ca-verification", "discovery-file", "discovery-timeout")
	annotate(flags, flagHeading, []string{enrolling.HeadingApproval}, "certificate")
	f.enroll.hsm = "hsm"
	f.enroll.bindTo(flags)
	f.enroll.bindSpare(flags)
	reword(flags, map[string]string{
		"hsm": "`URI` of the hardware token; default the ticket's, else the only one present",
		"name": "`name` of the enrollment and of the kubeconfig context; default the name in the ticket, else the " +
			"host's",
	})
	o = output(c)
	c.MarkFlagsMutuallyExclusive("ticket", "token")
	c.MarkFlagsMutuallyExclusive("ticket", "discovery-file")
	c.MarkFlagsMutuallyExclusive("token", "discovery-file")
	return c
}

func (f *joinFlags) options(a *app, c *cobra.Command, args []string) (enrolling.Options, error) {
	if a.context != "" {
		return enrolling.Options{},
			ui.Usagef("--context does not go with join: a cluster that the kubeconfig knows is joined with " +
				"`kubehsm enroll`")
	}
	ctx := c.Context()
	o, err := f.enroll.options("")
	if err != nil {
		return o, err
	}
	given := func(flag string) bool { return c.Flags().Changed(flag) }
	switch {
	case given("ticket"), len(args) == 0 && f.file == "" && o.Name == "":
		return o, f.useTicket(ctx, a, &o, args)
	case f.file != "":
		return o, f.useFile(ctx, a, &o, args)
	case len(args) > 0:
		return o, f.useToken(ctx, a, &o, args[0])
	case given("token") || given("tls-bootstrap-token"): // goes on with what is on record
		o.Join = &enrolling.Join{Timeout: f.discoveryTimeout}
		return o, f.tokens(ctx, a, o.Join)
	}
	return o, nil
}

// refuseDefaults fails before a person is asked for a ticket or token if the hardware token stops
// the join anyway. A resumed join may have accepted that.
func (f *joinFlags) refuseDefaults(ctx context.Context, env *env.Env) error {
	o, err := f.enroll.read()
	if err != nil || o.Name != "" || o.AcceptDefaults || f.enroll.plan {
		return err
	}
	return enroll.NewJoins(env).RefuseDefaults(ctx, o.Token)
}

func (f *joinFlags) useTicket(ctx context.Context, a *app, o *enrolling.Options, args []string) error {
	if len(args) > 0 || len(f.hashes) > 0 || f.unsafe || f.discoveryToken != "" || f.bootstrapToken != "" {
		return ui.Usagef("a ticket names the cluster and what to trust: leave address, hashes and " +
			"tokens out")
	}
	t, err := a.handedTicket(ctx, "ticket", f.ticket)
	if err != nil {
		return err
	}
	if err := o.UseTicket(t); err != nil {
		return err
	}
	o.Join.Timeout = f.discoveryTimeout
	return nil
}

func (f *joinFlags) useFile(ctx context.Context, a *app, o *enrolling.Options, args []string) error {
	o.Join = &enrolling.Join{File: f.file, Timeout: f.discoveryTimeout}
	if len(args) > 0 || len(f.hashes) > 0 || f.unsafe || f.discoveryToken != "" {
		return ui.Usagef("a discovery file names the cluster and what to trust: leave address, " +
			"hashes and --discovery-token out")
	}
	if f.file == discovery.Stdin {
		if f.bootstrapToken == "-" {
			return ui.Usagef("standard input can be read once: give the discovery file or the token in a file")
		}
		var err error
		if o.Join.Document, err = a.readAll("-"); err != nil {
			return err
		}
	}
	return a.handedFiler(ctx, "tls-bootstrap-token", f.bootstrapToken, o.Join)
}

func (f *joinFlags) useToken(ctx context.Context, a *app, o *enrolling.Options, address string) error {
	pins, err := discovery.ParsePins(f.hashes)
	if err != nil {
		return err
	}
	o.Join = &enrolling.Join{Endpoint: address, Pins: pins, UnsafeSkipCAVerification: f.unsafe,
		Timeout: f.discoveryTimeout}
	// Before a secret is asked for.
	check := discovery.Options{Endpoint: address, Pins: pins, UnsafeSkipCAVerification: f.unsafe,
		Limits: discovery.Limits{Timeout: f.discoveryTimeout}}
	if check.Token, err = bootstraptoken.Generate(); err != nil {
		return err
	}
	if err := check.Validate(); err != nil {
		return err
	}
	return f.tokens(ctx, a, o.Join)
}

// tokens reads the bootstrap tokens: kubeadm's --token stands for both.
func (f *joinFlags) tokens(ctx context.Context, a *app, j *enrolling.Join) error {
	if f.discoveryToken != "" && f.bootstrapToken != "" {
		if f.discoveryToken == "-" && f.bootstrapToken == "-" {
			return ui.Usagef("standard input can be read once: give one of the tokens in a file")
		}
		var err error
		if j.DiscoveryToken, err = a.handedToken(ctx, "discovery-token", f.discoveryToken); err != nil {
			return err
		}
		return a.handedFiler(ctx, "tls-bootstrap-token", f.bootstrapToken, j)
	}
	if f.bootstrapToken != "" && f.token == "" && j.Endpoint == "" { // the cluster is on record
		return a.handedFiler(ctx, "tls-bootstrap-token", f.bootstrapToken, j)
	}
	both, err := a.handedToken(ctx, "token", f.token)
	if err != nil {
		return err
	}
	j.Token, j.DiscoveryToken = both, both
	if f.discoveryToken != "" {
		j.DiscoveryToken, err = a.handedToken(ctx, "discovery-token", f.discoveryToken)
	}
	if f.bootstrapToken != "" {
		err = errors.Join(err, a.handedFiler(ctx, "tls-bootstrap-token", f.bootstrapToken, j))
	}
	return err
}
