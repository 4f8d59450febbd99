package cli

import (
	"slices"
	"strings"

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
		Short: "Take away what can be taken away after a token was lost, and say what remains",
		Long: `Kubernetes cannot revoke a certificate: it is good until it ends. This lists what
a user has - bindings, live certificates, pending requests, tickets - removes, after
a yes, the bindings that name the user and what is not decided yet, and says what
remains and until when. What you may not list is not removed, and the command then fails.

This computer keeps the user and their known keys and certificates on record. A later
request for one of them is not approved from this computer without --accept-risk=revoked.`,
		Example: `kubehsm helpdesk revoke --user jane --dry-run
kubehsm helpdesk revoke --user jane --group dev`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		if user == "" {
			return ui.Usagef("--user is missing: whose access is it about?")
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
			return a.emit(o, r, func(w *words) { revocationWords(w, r) })
		}
		w := a.err()
		revocationWords(w, r)
		if err := w.flush(); err != nil {
			return err
		}
		if err := a.confirm(ctx, yes, r.Question()); err != nil {
			return err
		}
		if err := desk.NewRevocations(env).Revoke(ctx, a.context, &r); err != nil {
			return err
		}
		err = a.emit(o, r, func(w *words) {
			for _, d := range r.Done {
				w.line("done    %s", d)
			}
			for _, f := range r.Failed {
				w.line("failed  %s", f)
			}
			for _, u := range r.Unseen {
				w.line("not done  %s", u)
			}
			for _, l := range r.Remains(present.Date) {
				w.line("%s", l)
			}
		})
		if err == nil {
			err = r.Err()
		}
		return err
	})
	c.Flags().StringVar(&user, "user", "", "user `name` that the lost token stands for (required)")
	c.Flags().StringArrayVar(&groups, "group", nil, "`group` that the user's certificates are known to have; may be repeated")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what there is and remove nothing")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	must(c.MarkFlagRequired("user"))
	once(c.Flags(), "user")
	o = output(c)
	return c
}

func revocationWords(w *words, r desk.Revocation) {
	var rows [][]string
	add := func(what string, can bool, name, detail string) {
		does := "stays"
		if can {
			does = "can be removed"
		}
		rows = append(rows, []string{what, name, detail, does})
	}
	for _, b := range r.Bindings {
		add("binding", true, b.Name, strings.TrimSpace(b.Namespace+" "+b.Role))
	}
	for _, b := range r.GroupBindings {
		add("binding of a group", false, b.Name, b.Subject+": "+b.Role)
	}
	for _, c := range r.Certificates {
		add("certificate", false, c.Request, strings.TrimSpace(strings.Join(c.Groups, ",")+" until "+present.Date(c.NotAfter)))
	}
	for _, p := range r.Pending {
		add("pending request", true, p, "")
	}
	for _, p := range r.Approved {
		add("approved request", true, p, "not signed yet")
	}
	for _, t := range r.Tickets {
		add("ticket", true, t, "")
	}
	switch {
	case len(rows) > 0:
		w.table([]string{"WHAT", "NAME", "DETAIL", ""}, rows)
	case len(r.Unseen) > 0:
		w.line("Nothing was found for %q in this cluster, as far as you may look.", r.User)
	default:
		w.line("Nothing was found for %q in this cluster.", r.User)
	}
	for _, u := range slices.Concat(r.Unseen, r.Unknown) {
		w.line("not known: %s", u)
	}
}
