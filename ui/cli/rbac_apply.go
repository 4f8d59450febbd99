package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) rbacApply() *cobra.Command {
	var o *format
	var dryRun, force, yes, publish bool
	c := a.command(&cobra.Command{
		Use:   "apply [SET...]",
		Short: "Create or update the roles and policies in a cluster",
		Long: `Shows how the cluster differs from the roles and policies of kubehsm, asks, and writes
them by server-side apply. It makes nobody a member of a group: groups come with the
credentials of users.

With --publish-cluster-info, it also writes the ConfigMap cluster-info in kube-public and
lets everybody read it, as kubeadm does: tickets need it. It shows the contents first,
and does not change a cluster-info that exists.

` + setsUsage(),
		Example: `kubehsm rbac apply --context prod
kubehsm rbac apply ticket --publish-cluster-info
kubehsm rbac apply breakglass --dry-run`,
	}, func(c *cobra.Command, args []string) error {
		if _, err := desk.RBACManifest(args...); err != nil {
			return &ui.UsageError{Err: err}
		}
		ctx := c.Context()
		env, err := a.env()
		if err != nil {
			return err
		}
		roles := desk.NewRoles(env)
		if publish {
			roles = roles.Publishing()
		}
		now, err := roles.Check(ctx, a.context, args)
		if err != nil {
			return err
		}
		w := a.err()
		w.sections([]present.Section{present.Roles(now)})
		if err := w.flush(); err != nil {
			return err
		}
		if !dryRun {
			if err := a.confirm(ctx, yes, "Apply these?"); err != nil {
				return err
			}
		}
		done, err := roles.Apply(ctx, a.context, args, dryRun, force)
		if err == nil && publish && !dryRun {
			err = roles.Published(ctx, a.context)
		}
		doc := rbacDoc{Objects: done}
		return errors.Join(err, desk.RBACUnenforced(done), a.emit(o, doc, func(w *words) {
			if dryRun {
				w.line("Nothing was changed. The cluster would take:")
			}
			w.sections([]present.Section{present.Roles(done)})
		}))
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "have the cluster check everything, and change nothing")
	c.Flags().BoolVar(&force, "force-conflicts", false, "overwrite what others have changed")
	c.Flags().BoolVar(&publish, "publish-cluster-info", false, "let everybody read the cluster's address and authority")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o = output(c)
	return c
}
