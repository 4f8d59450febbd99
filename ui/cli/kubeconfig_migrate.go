package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

func (a *app) kubeconfigMigrate() *cobra.Command {
	var o *format
	var f enrollFlags
	var drop, keep bool
	c := a.command(&cobra.Command{
		Use:   "migrate [CONTEXT]",
		Short: "Replace the key file of a context by a key on a token",
		Long: `Enrolls a key on a token for the user and groups of a context whose key or secret is in
files, and signs in with it. When that has worked, offers to delete the old context.
Copies of the old key may still exist.

To continue an interrupted migration, run the same command again.`,
		Example: `kubehsm kubeconfig migrate prod --dry-run
kubehsm kubeconfig migrate prod
kubehsm kubeconfig migrate prod --approve-with admin.kubeconfig --delete-old --yes`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		from := a.context
		if len(args) > 0 {
			if a.context != "" && a.context != args[0] {
				return ui.Usagef("two contexts: %q and %q", args[0], a.context)
			}
			from = args[0]
		}
		options, err := f.options(from)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		m, err := contexts.New(env).Migration(ctx, from)
		if err != nil {
			return err
		}
		m.Fill(&options)
		result, err := a.enrollReviewed(ctx, env, options, f)
		if err != nil || f.plan {
			return err
		}
		result.Notes = append(result.Notes, m.Remarks()...)
		dropped := false
		var kept error // the new context works, whatever becomes of the old one
		if !keep {
			dropped, kept = a.dropOld(ctx, env, m, drop)
		}
		doc := struct {
			enrolling.Result
			Old     string `json:"old"`
			Dropped bool   `json:"dropped"`
		}{result, m.Context.Name, dropped}
		return errors.Join(kept, a.emit(o, doc, func(w *words) {
			resultWords(w, result)
			if dropped {
				w.line("The old context %s is gone; `%s kubeconfig undo` brings it back.", m.Context.Name, a.name())
			} else {
				w.line("The old context %s is kept; `%s kubeconfig migrate %s --delete-old` takes it "+
					"out.", m.Context.Name,
					a.name(), m.Context.Name)
			}
		}))
	})
	flags := c.Flags()
	f.bindTo(flags)
	reword(flags,
		map[string]string{"name": "`name` of the enrollment and of the new context; default that of CONTEXT with -hsm"})
	flags.BoolVar(&drop, "delete-old", false, "delete the old context once the new one works, without asking")
	flags.BoolVar(&keep, "keep-old", false, "keep the old context, without asking")
	c.MarkFlagsMutuallyExclusive("delete-old", "keep-old")
	o = output(c)
	return c
}

// dropOld offers to remove the old context.
func (a *app) dropOld(ctx context.Context, env *env.Env, m contexts.Migration, yes bool) (bool, error) {
	plan, err := contexts.New(env).Drop(ctx, m.Context.Name)
	if err != nil {
		return false, err
	}
	w := a.err()
	w.line("The new context works. Without the old one:")
	w.diff(plan.Diff())
	for _, n := range plan.Notes() {
		w.line("note: %s", n)
	}
	if err := w.flush(); err != nil {
		return false, err
	}
	switch ok, err := a.offer(ctx, yes, "Remove the old context "+m.Context.Name+" from the kubeconfig?"); {
	case err != nil || !ok:
		return false, err
	}
	return true, plan.Apply(ctx)
}
