package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) helpdeskRevoke() *cobra.Command {
	var o *format
	var user string
	var groups []string
	var dryRun, yes bool
	c := a.command(&cobra.Command{
		Use:   "revoke --user NAME",
		Short: "Revoke the access of a user, and show what cannot be revoked",
		Long: `Kubernetes cannot revoke a certificate: it is valid until it expires. This command lists
what a user has: bindings, valid certificates, pending requests and tickets. It asks,
removes the bindings that name the user and what is undecided, and shows what remains
and until when. What you may not list is not removed, and the command then fails.

This computer keeps the user and their known keys and certificates on record. It does
not approve a later request for one of them without --accept-risk=revoked.`,
		Example: `kubehsm helpdesk revoke --user jane --dry-run
kubehsm helpdesk revoke --user jane --group dev`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		if user == "" {
			return ui.Usagef("--user is missing: name the user whose access is revoked")
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		r, err := desk.NewRevocations(env).LookUp(ctx, a.context, user, groups)
		if err != nil {
			return err
		}
		if dryRun {
			return a.emit(o, r, func(w *words) { w.sections(present.Revocation(r)) })
		}
		w := a.err()
		w.sections(present.Revocation(r))
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(ctx, yes, present.RevocationQuestion(r)); err != nil {
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
	})
	c.Flags().StringVar(&user, "user", "", "user `name` of the lost token's owner (required)")
	c.Flags().StringArrayVar(&groups, "group", nil,
		"`group` in the user's certificates, if known; may be repeated")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be removed, and change nothing")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	must(c.MarkFlagRequired("user"))
	once(c.Flags(), "user")
	o = output(c)
	return c
}
