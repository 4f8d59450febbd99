package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

// revoking are the flags of helpdesk revoke.
type revoking struct {
	desk.Sought
	files       []string
	groups      []string
	until       string
	reason      string
	accept      []string
	timeout     time.Duration
	dryRun, yes bool
}

func (r *revoking) bind(f *pflag.FlagSet) {
	f.StringVar(&r.User, "user", "", "user `name` of the lost token's owner: takes away all of their access")
	f.StringArrayVar(&r.groups, "group", nil, "`group` in the user's certificates, if known; may be repeated")
	f.StringArrayVar(&r.files, "certificate", nil,
		"PEM `file` with certificates; - for standard input; may be repeated")
	f.StringVar(&r.Fingerprint, "fingerprint", "",
		"`hash` of a certificate, its SHA-256, also as the audit log's credential-id")
	f.StringVar(&r.Serial, "serial", "", "serial `number` of a certificate that the cluster or this computer knows")
	f.StringVar(&r.Issuer, "issuer", "", "part of the issuer's `name`, to go with --serial")
	f.StringVar(&r.Token, "token", "", "`URI` or serial number of a token whose certificates are known here")
	f.StringVar(&r.until, "until", "", "with --fingerprint: when the certificate ends, a `date` such as 2027-01-31")
	f.StringVar(&r.reason, "reason", "", "`text` that the refused user sees in the error")
	f.StringSliceVar(&r.accept, "accept-risk", nil,
		"accept a `risk`: own revokes the certificate in use; admin one of system:masters or the control plane")
	annotate(f, flagChoices, []string{desk.RiskOwn, desk.RiskAdmin}, "accept-risk")
	f.DurationVar(&r.timeout, "timeout", desk.ApproverPatience,
		"how long to wait for the approver to revoke the certificates")
	f.BoolVar(&r.dryRun, "dry-run", false, "show what would be removed and revoked, and change nothing")
	f.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
}

// certificates reports whether certificates are named, and not all access of a user.
func (r *revoking) certificates() bool {
	return len(r.files) > 0 || r.Fingerprint != "" || r.Serial != "" || r.Token != ""
}

func (r *revoking) check() (err error) {
	if r.User == "" && !r.certificates() {
		return ui.Usagef("name a user with --user, " +
			"or a certificate with --certificate, --fingerprint, --serial or --token")
	}
	if len(r.files) > 0 && (r.User != "" || r.Fingerprint != "" || r.Serial != "" || r.Token != "") {
		return ui.Usagef("--certificate goes with no other way to name a certificate")
	}
	if r.Issuer != "" && r.Serial == "" {
		return ui.Usagef("--issuer goes with --serial")
	}
	if err := r.Check(); err != nil {
		return &ui.UsageError{Err: err}
	}
	if len(r.groups) > 0 && r.certificates() {
		return ui.Usagef("--group goes with --user alone")
	}
	if r.until != "" && r.Fingerprint == "" {
		return ui.Usagef("--until goes with --fingerprint")
	}
	if r.until != "" {
		if r.Until, err = time.ParseInLocation(time.DateOnly, r.until, time.Local); err != nil {
			return ui.Usagef("--until: %q is not a date such as 2027-01-31", r.until)
		}
		r.Until = r.Until.AddDate(0, 0, 1) // to the day's end
	}
	for _, risk := range r.accept {
		if risk != desk.RiskOwn && risk != desk.RiskAdmin {
			return ui.Usagef("--accept-risk: %q is not a risk of a revocation; use %s or %s", risk, desk.RiskOwn,
				desk.RiskAdmin)
		}
	}
	return nil
}

func (a *app) helpdeskRevoke() *cobra.Command {
	var o *format
	var r revoking
	c := a.command(&cobra.Command{
		Use:   "revoke",
		Short: "Revoke the access of a user, or certificates, and show what remains",
		Long: `With --user, lists what a user has: bindings, valid certificates, pending requests and
tickets. It asks, retires the user's tokens on the roster, removes the bindings that name
the user, denies the pending requests, ends the tickets, revokes the certificates, and
shows what remains and until when. What you may not list is not removed, and the command
then fails.

With --token, retires the token on the roster, so that no key in it gets a certificate,
and revokes its certificates. With --certificate, --fingerprint or --serial, revokes only
these certificates, even if kubehsm did not enroll them.

If you may not change admission policies, and the approver is installed, it revokes
the certificates for you. The command waits until it has (--timeout).

A revoked certificate is refused when it writes: an admission policy names it until it
ends. It can still read, and whoever may impersonate others can write with --as.
"kubehsm help docs" says where to read more.`,
		Example: `kubehsm helpdesk revoke --user jane --dry-run
kubehsm helpdesk revoke --user jane --group dev
kubehsm helpdesk revoke --certificate jane.pem --reason 'lost on a train'
kubehsm helpdesk revoke --fingerprint X509SHA256=5f1c… --until 2027-01-31`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		if err := r.check(); err != nil {
			return err
		}
		if r.certificates() {
			return a.revokeCertificates(c.Context(), o, r)
		}
		return a.revokeUser(c.Context(), o, r)
	})
	r.bind(c.Flags())
	once(c.Flags(), "user")
	o = output(c)
	return c
}

// revokeUser takes away what a user has.
func (a *app) revokeUser(ctx context.Context, o *format, f revoking) error {
	env, err := a.env()
	if err != nil {
		return err
	}
	r, err := desk.NewRevocations(env).LookUp(ctx, a.context, f.User, f.groups, f.accept)
	if err != nil {
		return err
	}
	r.Reason = f.reason
	if r.Stop != nil {
		r.Stop.Patience = f.timeout
	}
	if f.dryRun {
		return a.emit(o, r, func(w *words) { w.sections(present.Revocation(r)) })
	}
	w := a.err()
	w.sections(present.Revocation(r))
	if err := w.flush(); err != nil {
		return err
	}
	if err := a.confirm(ctx, f.yes, present.RevocationQuestion(r)); err != nil {
		return err
	}
	if err := desk.NewRevocations(env).Revoke(ctx, a.context, &r); err != nil {
		return err
	}
	err = a.emit(o, r, func(w *words) { w.sections(present.Revoked(r)) })
	if err == nil {
		err = r.Err()
	}
	return err
}

// revokeCertificates revokes certificates that are named.
func (a *app) revokeCertificates(ctx context.Context, o *format, f revoking) error {
	for _, file := range f.files {
		b, err := a.readAll(file)
		if err != nil {
			return err
		}
		f.PEM = append(append(f.PEM, b...), '\n')
	}
	env, err := a.env()
	if err != nil {
		return err
	}
	stopping := desk.NewStopping(env)
	stop, err := stopping.Find(ctx, a.context, f.Sought, f.accept)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.emit(o, stop, func(w *words) { w.sections(present.Stop(stop)) })
	}
	w := a.err()
	w.sections(present.Stop(stop))
	if err := w.flush(); err != nil {
		return err
	}
	if err := stop.Err(); err != nil {
		return err
	}
	if len(stop.Targets)+len(stop.Tokens) > 0 {
		if err := a.confirm(ctx, f.yes, "Revoke these?"); err != nil {
			return err
		}
	}
	stop.Patience = f.timeout
	if err := stopping.Stop(ctx, a.context, &stop, f.reason); err != nil {
		return err
	}
	return errors.Join(a.emit(o, stop, func(w *words) { w.sections(present.Stopped(stop)) }), stop.Pending())
}
